"""DS2's files: its own examples, what they leave open, and every line that is wrong.

The expected numbers of `test_the_examples_of_ds2` and `test_the_shipped_word_count` are those of DS2's own code, commit
e3decca: of its tests, and of its offline tool, run on the rates that it ships (`examples/flink_wordcount_rates`). The
first epochs of these are here, rounded to records per second. No results are published beside them.
"""

import json
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rechannel.advising.api import scaling_advice
from rechannel.errors import RefusedError, TraceError
from rechannel.scaling.files.advice import as_record
from tests.unit.scaling.files.word_count import SHIPPED, WORD_COUNT


@pytest.fixture
def run(tmp_path):
    """Write the files of a run: contents by name, and return its directory."""

    def write(**files):
        place = tmp_path / "run"
        place.mkdir(exist_ok=True)
        for name, text in files.items():
            (place / f"{name}.csv").write_text(text, encoding="utf-8")
        return place

    return write


def rates(*rows):
    """Lines of rates: operator, instance, instances, timestamp, and four rates."""
    return "\n".join(",".join(map(str, row)) for row in rows)


ONE = "Source,Source,1,Op1,Op1,1\nOp1,Op1,1,Op2,Op2,1"
TWO = "A,A,1,Op1,Op1,1\nB,B,1,Op1,Op1,1\nOp1,Op1,1,Op2,Op2,1"
CHAIN = [(100, (50, 400), (100, 200)), (200, (40, 700), (99, 200)), (200, (10, 700), (201, 200))]


@pytest.mark.parametrize(
    ("topology", "sources", "expected"),
    [(ONE, "Source", [(2, 8), (5, 36), (20, 70)]), (TWO, "AB", [(4, 16), (10, 71), (40, 140)])],
)
def test_the_examples_of_ds2(run, topology, sources, expected):
    names = [sources] if topology == ONE else sources
    rows = []
    for time, (source, *operators) in enumerate(CHAIN):
        rows += [(name, 0, 1, time, 0, source, 0, 90) for name in names]
        rows += [(f"Op{n}", 0, 1, time, *true, 1, 1) for n, true in enumerate(operators, start=1)]
    made = scaling_advice(run(topology=topology, rates=rates(*rows)))
    found = [tuple(each.advised for each in epoch.operators.values()) for epoch in made.epochs]
    assert found == expected
    assert made.parallelism == dict(zip(("Op1", "Op2"), expected[1], strict=True))
    assert (made.operators["Op1"].low, made.operators["Op1"].high) == (
        expected[0][0],
        expected[2][0],
    )


def test_the_shipped_word_count(run):
    place = run(topology=WORD_COUNT, rates=SHIPPED)
    made = scaling_advice(place)
    totals = [sum(each.exact for each in epoch.operators.values()) for epoch in made.epochs]
    assert totals == pytest.approx([2.05636364, 1.51989769, 1.41368034], abs=1e-4)
    assert made.parallelism == {"FlatMap": 1, "Count": 1}
    assert made.operators["FlatMap"].high == 2
    adjusted = scaling_advice(place, threshold=1.2)
    assert all(each.adjusted for each in adjusted.epochs)
    numbers = [[each.advised for each in epoch.operators.values()] for epoch in adjusted.epochs]
    assert numbers == [[3, 2], [2, 2], [2, 2]]
    timely = scaling_advice(place, system="timely")
    assert ([each.workers for each in timely.epochs], timely.workers) == ([3, 2, 2], 2)


def test_a_file_per_instance_and_epoch_says_the_same(run, tmp_path):
    one = run(topology=WORD_COUNT, rates=SHIPPED)
    lines = [line for line in SHIPPED.splitlines() if line and not line.startswith("#")]
    numbers = {"Source": 0, "FlatMap": 0, "Count": 0}
    parts = tmp_path / "parts"
    parts.mkdir()
    for line in lines:
        operator, instance, *_ = line.split(",")
        epoch = numbers[operator] // (2 if operator == "FlatMap" else 1)
        numbers[operator] += 1
        (parts / f"{operator}-{instance}-{epoch}.log").write_text(line)
    assert len(list(parts.iterdir())) == len(lines) == 12
    made = scaling_advice(parts, topology=one / "topology.csv")
    assert replace(made, title="") == replace(scaling_advice(one), title="")


def test_the_factor_adds_instances_and_does_not_travel(run):
    place = run(topology=WORD_COUNT, rates=SHIPPED)
    plain, more = scaling_advice(place), scaling_advice(place, factor=0.7)
    # As DS2's offline tool says: 0.94 and 0.58 of epoch 1, times 1.7.
    assert [each.advised for each in more.epochs[1].operators.values()] == [2, 1]
    assert [each.target for each in more.operators.values()] == [
        each.target for each in plain.operators.values()
    ]


@pytest.mark.parametrize(
    ("threshold", "source", "advised", "adjusted"),
    [
        (None, 120, 2, False),
        (1.3, 120, 2, False),
        (1.2, 120, 2, False),
        (1.19, 120, 3, True),
        (1.1, 300, 3, False),
    ],
)
def test_the_threshold_counts_where_nothing_is_to_grow(run, threshold, source, advised, adjusted):
    place = run(
        topology="S,S,1,Op,Op,2",
        rates=rates(
            ("S", 0, 1, 0, 0, source, 0, 100), *(("Op", n, 2, 0, 100, 1, 50, 1) for n in (0, 1))
        ),
    )
    [epoch] = scaling_advice(place, threshold=threshold).epochs
    assert epoch.behind == pytest.approx(source / 100)
    assert (epoch.operators["Op"].advised, epoch.adjusted) == (advised, adjusted)


def test_the_threshold_leaves_operators_without_rates_alone(run):
    place = run(
        topology="S,S,1,Op,Op,3\nOp,Op,3,Sink,Sink,3",
        rates=rates(("S", 0, 1, 0, 0, 200, 0, 100), ("Op", 1, 3, 0, 100, 100, 100, 100)),
    )
    [epoch] = scaling_advice(place, threshold=1.5).epochs
    assert epoch.adjusted
    assert [each.advised for each in epoch.operators.values()] == [4, 3]


def test_source_rates_are_of_one_instance_and_come_first(run):
    topology = "S,S,2,Op,Op,1"
    reports = rates(*(("S", n, 2, 0, 0, 60, 0, 40) for n in (1, 2)), ("Op", 1, 1, 0, 100, 1, 80, 1))
    expected = {None: 120, "S,500": 1000, "S,-1": 80}
    for given_rate, target in expected.items():
        files = {} if given_rate is None else {"source_rates": given_rate}
        made = scaling_advice(run(topology=topology, rates=reports, **files))
        assert made.operators["Op"].target == target


def test_operator_rates_limit_what_useful_time_overstates(run):
    # The operator waits instead of computing: it would process 1,000 by its useful time, and is limited to 100.
    topology = "S,S,1,Map,Map,1\nMap,Map,1,Count,Count,1"
    reports = rates(
        ("S", 1, 1, 0, 0, 1000, 0, 90),
        ("Map", 1, 1, 0, 1000, 20_000, 90, 1800),
        ("Count", 1, 1, 0, 9000, 0, 1800, 0),
    )
    place = run(topology=topology, rates=reports, operator_rates="Map,100\nCount,1000")
    made = scaling_advice(place, system="heron")
    assert made.parallelism == {"Map": 10, "Count": 20}
    (place / "operator_rates.csv").write_text("Map,-1\nCount,9999999")
    made = scaling_advice(place, system="heron")
    assert (made.operators["Map"].rate, made.operators["Count"].rate) == (90, 9000)
    assert made.operators["Count"].target == 20_000


def test_what_is_missing_has_an_answer(run):
    topology = "S,S,1,Op,Op,4\nOp,Op,4,Sink,Sink,3"
    reports = rates(
        ("S", 1, 1, 0, 0, 100, 0, 90),
        ("Op", 1, 4, 0, 10, 10, 5, 5),
        ("Op", 2, 4, 0, 30, 30, 5, 5),
        ("Op", 3, 4, 0, "NaN", "NaN", 0, 0),
        ("Op", 1, 4, 1, 10, 10, 5, 5),
    )
    made = scaling_advice(run(topology=topology, rates=reports))
    op, sink = made.operators["Op"], made.operators["Sink"]
    assert (op.rate, op.advised, op.reports) == (20, 5, 2)
    assert (sink.rate, sink.advised, sink.known) == (None, 3, False)
    assert made.notes == (
        "left out, since a source reported no rate and none is given: epochs 1",
        "Op: not all instances reported in epochs 0; they count as the mean of the others",
        "Sink reported nothing, and keeps what it has",
    )
    given_rates = run(topology=topology, rates=reports, source_rates="S,100")
    assert [each.epoch for each in scaling_advice(given_rates).epochs] == [0, 1]


def test_no_source_has_a_rate(run):
    place = run(topology="S,S,1,Op,Op,1", rates=rates(("Op", 1, 1, 0, 10, 10, 5, 5)))
    with pytest.raises(TraceError, match=r"rates of all sources \('S'\); give them in a file"):
        scaling_advice(place)


GOOD = rates(("S", 1, 1, 0, 0, 100, 0, 90), ("Op", 1, 1, 0, 10, 10, 5, 5))


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("topology", "S,S,1,Op,Op", "topology.csv, line 1: 5 fields instead of 6"),
        ("topology", "# x\nS,S,0,Op,Op,1", "line 2: the number of instances of 'S' is '0'"),
        (
            "topology",
            "S,S,1,Op,Op,1\nS,S,2,Op,Op,1",
            "'S' is 'S' with 2 instances; before, 'S' with 1",
        ),
        ("topology", "S,S,1,Op,Op,1\nOp,Op,1,S,S,1", "topology.csv: the topology has a cycle"),
        ("topology", "", "topology.csv: the topology has no operators"),
        ("rates", GOOD + "\nOp,2,1,0,10", "rates.csv, line 3: 5 fields instead of 8"),
        ("rates", GOOD + "\nX,1,1,0,1,1,1,1", "line 3: operator 'X' is not in the topology"),
        ("rates", GOOD + "\nOp,1,2,1,1,1,1,1", "'Op' has 2 instances here, and 1 in the topology"),
        ("rates", GOOD + "\nOp,2,1,0,1,1,1,1", "instance '2' of 'Op' is one more than the 1"),
        ("rates", GOOD + "\nOp,1,1,0,1,1,1,1", "instance '1' of 'Op' reported timestamp 0 before"),
        ("rates", GOOD + "\nOp,1,1,1,fast,1,1,1", "true_processing is 'fast'"),
        ("rates", GOOD + "\nOp,1,1,1,1,-2,1,1", "true_output is '-2'"),
        ("rates", GOOD + "\nOp,1,1,soon,1,1,1,1", "the timestamp is 'soon'"),
        ("source_rates", "Op,3", "source_rates.csv, line 1: 'Op' is not one of \\['S'\\]"),
        (
            "source_rates",
            "S,-3",
            "the rate of 'S' is '-3'; write records per second above 0, or -1",
        ),
        ("source_rates", "S,3\nS,4", "line 2: operator 'S' had the rate 3.0 before"),
        ("source_rates", "# nothing", "has no rates"),
        ("operator_rates", "S,3", "'S' is not one of \\['Op'\\]"),
    ],
)
def test_a_bad_line_is_named(run, name, text, message):
    files = {"topology": "S,S,1,Op,Op,1", "rates": GOOD}
    assert scaling_advice(run(**files)).parallelism == {"Op": 10}
    with pytest.raises(TraceError, match=message):
        scaling_advice(run(**{**files, name: text}))


def test_all_bad_lines_are_named_up_to_a_limit(run):
    place = run(topology="S,S,1,Op,Op,1", rates="\n".join(["x"] * 13))
    with pytest.raises(TraceError) as raised:
        scaling_advice(place)
    lines = str(raised.value).splitlines()
    assert len(lines) == 11
    assert "line 10: " in lines[9]
    assert lines[-1] == "and 3 more lines"


def test_files_that_are_missing_or_could_be_the_same_one(run, tmp_path):
    place = run(topology=WORD_COUNT)
    with pytest.raises(RefusedError, match="has no rates"):
        scaling_advice(place)
    run(rates=SHIPPED, more_rates=SHIPPED)
    with pytest.raises(
        RefusedError, match=r"more_rates.csv, rates.csv could all be the file of the rates"
    ):
        scaling_advice(place)
    (place / "more_rates.csv").rename(place / "Count-1-0.csv")
    with pytest.raises(RefusedError, match=r"and in a file per epoch, Count-1-0\.csv"):
        scaling_advice(place)
    with pytest.raises(RefusedError, match="no file of the topology"):
        scaling_advice(place / "rates.csv")
    with pytest.raises(RefusedError, match="does not exist"):
        scaling_advice(place / "nothing")
    with pytest.raises(
        RefusedError, match="not one of these: a state directory of a job, files of DS2"
    ):
        scaling_advice(tmp_path)


@pytest.mark.parametrize(
    "asked",
    [{"factor": -0.1}, {"factor": float("nan")}, {"threshold": 0.9}, {"system": "storm"}],
)
def test_what_cannot_be_asked(run, asked):
    place = run(topology=WORD_COUNT, rates=SHIPPED)
    with pytest.raises(RefusedError, match=f"^{next(iter(asked))} "):
        scaling_advice(place, **asked)


@given(
    rate=st.floats(1, 1e6),
    each=st.floats(0.5, 1e6),
    ratio=st.floats(0.01, 100),
    factor=st.sampled_from([0, 1, 3]),
)
def test_scaling_all_rates_changes_nothing(tmp_path_factory, rate, each, ratio, factor):
    place = tmp_path_factory.mktemp("run")
    (place / "topology.csv").write_text("S,S,1,Op,Op,2")
    found = []
    for by in (1, 8):
        (place / "rates.csv").write_text(
            rates(
                ("S", 1, 1, 0, 0, rate * by, 0, rate),
                *(("Op", n, 2, 0, each * by, each * ratio * by, 1, 1) for n in (1, 2)),
            )
        )
        found.append(scaling_advice(place, factor=factor).operators["Op"])
    assert found[0].advised == found[1].advised >= 1
    assert found[0].advised >= found[0].exact * (1 + factor) * (1 - 1e-6)


def test_it_is_json(run):
    made = scaling_advice(run(topology=WORD_COUNT, rates=SHIPPED))
    record = json.loads(json.dumps(as_record(made)))
    assert record["parallelism"] == {"FlatMap": 1, "Count": 1}
    assert record["operators"]["FlatMap"]["sentence"] == (
        "FlatMap: 108,194 records per second will reach it, and one instance can process 114,661: 0.94 instances;"
        " 1 instead of 2."
    )
