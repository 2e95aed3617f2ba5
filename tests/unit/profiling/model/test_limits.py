"""Limits: their grammar, and what breaks them."""

import pytest

import rechannel as rc
from rechannel.errors import RefusedError
from rechannel.profiling.model.causes import CAUSES
from rechannel.profiling.model.finding import Finding
from rechannel.profiling.model.limits import broken, read_limit
from tests.unit.profiling.model.test_comparison import analysed


def found(cause="skew", gain=0.3, seconds=12.0, text="Stage 3 has one long task."):
    return Finding(cause=cause, text=text, advice="Salt it.", gain=gain, seconds=seconds)


@pytest.mark.parametrize(
    ("text", "cause", "share", "seconds"),
    [
        ("skew>20%", "skew", 0.2, None),
        (" skew > 2.5 % ", "skew", 0.025, None),
        ("any>0%", "any", 0.0, None),
        ("spill>30s", "spill", None, 30.0),
        ("spill>500 ms", "spill", None, 0.5),
        ("spill>1 minute 30 seconds", "spill", None, 90.0),
        ("slower>10%", "slower", 0.1, None),
        ("Driver Program>5%", "driver-program", 0.05, None),
    ],
)
def test_a_limit_is_a_cause_and_an_amount(text, cause, share, seconds):
    limit = read_limit(text, CAUSES)
    assert (limit.cause, limit.share, limit.seconds) == (cause, share, seconds)
    assert limit.text == text


@pytest.mark.parametrize("text", ["", "skew", "skew=20%", "skew<20%", ">20%", "20%"])
def test_what_is_no_limit(text):
    with pytest.raises(RefusedError, match="is not a limit: write a cause, '>' and a gain"):
        read_limit(text, CAUSES)


@pytest.mark.parametrize(
    "text", ["skew>", "skew>20", "skew>-1%", "skew>many%", "skew>>2%", "skew>2 parsecs"]
)
def test_what_is_no_amount(text):
    with pytest.raises(RefusedError, match="is neither per cent nor a length of time"):
        read_limit(text, CAUSES)


def test_an_unknown_cause_is_refused_with_those_that_there_are():
    with pytest.raises(RefusedError) as refused:
        read_limit("skw>20%", CAUSES)
    assert "there is no cause 'skw', as in 'skw>20%'. Did you mean 'skew'?" in str(refused.value)
    assert all(cause in str(refused.value) for cause in (*CAUSES, "any", "slower"))


@pytest.mark.parametrize(
    ("limit", "fails"),
    [
        ("skew>20%", True),
        ("skew>30%", False),
        ("skew>11s", True),
        ("skew>12s", False),
        ("spill>1%", False),
        ("any>29%", True),
    ],
)
def test_a_larger_gain_breaks_it(limit, fails):
    assert bool(broken([read_limit(limit, CAUSES)], [found()])) is fails


def test_the_line_names_the_limit_and_the_worst_that_breaks_it():
    limits = [read_limit(text, CAUSES) for text in ("any>1%", "skew>50%", "driver-program>1%")]
    others = [
        found(),
        found("driver program", 0.4, 16.0, "The program takes 16 s between jobs."),
        found("spill", None, None),
    ]
    assert broken(limits, others) == [
        "any>1%: driver program costs 40 % of the run, 16 s. The program takes 16 s between jobs.",
        "driver-program>1%: driver program costs 40 % of the run, 16 s. The program takes 16 s between jobs.",
    ]


@pytest.mark.parametrize(
    ("limit", "fails"),
    [("slower>70%", True), ("slower>90%", False), ("slower>30s", True), ("slower>50s", False)],
)
def test_a_second_run_may_be_slower_by_so_much(limit, fails):
    compared = rc.compare_profiles(analysed((20, 20), 3), analysed((40, 40), 3))
    lines = broken([read_limit(limit, CAUSES)], [], compared)
    assert bool(lines) is fails
    assert not fails or lines[0].startswith(f"{limit}: B takes 40 s longer than A")


def test_a_faster_run_is_not_slower():
    compared = rc.compare_profiles(analysed((40, 40), 3), analysed((20, 20), 3))
    assert broken([read_limit("slower>0%", CAUSES)], [], compared) == []
