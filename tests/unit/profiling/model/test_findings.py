"""What profiles say in words."""

import json
import re

import pytest

from rechannel.cli.app import execute
from rechannel.errors import TraceError
from rechannel.profiling.model.analysis import OpenedTrace, ProfileOptions, analyse
from rechannel.profiling.model.finding import Certainty, Finding
from rechannel.profiling.model.findings import Suspect, beside
from rechannel.profiling.model.gains import Change
from rechannel.profiling.model.trace import RESERVED, Activities, Messages, Names, Trace
from rechannel.profiling.reading import analyse_trace
from rechannel.profiling.storage.stored import StoredTrace
from tests.unit.profiling.logs import small

NS = 1_000_000_000
TENTH = NS // 10


def rounds(works, plan, steps=20):
    """Rounds of a driver that plans, sends work to workers, and waits for all of them. works, plan: tenths of a second.

    works: of every worker; plan: of the driver.
    """
    kinds = (*RESERVED, "processing", "scheduling")
    did, went, now = [], [], 0
    for _ in range(steps):
        did.append((0, 5, -1, now, now + plan))
        sent = now + plan
        for worker, work in enumerate(works, 1):
            went.append((0, worker, 2, -1, sent, sent + 1))
            did.append((worker, 4, 0, sent + 1, sent + 1 + work))
            went.append((worker, 0, 2, -1, sent + 1 + work, sent + 2 + work))
        now = sent + 2 + max(works)
        did.append((0, 1, -1, sent, now))
    for worker in range(1, len(works) + 1):
        did.append((worker, 1, -1, 0, now))
    return Trace(
        names=Names(
            workers=["driver", *(f"w{i}" for i in range(1, len(works) + 1))],
            operators=["count"],
            kinds=kinds,
        ),
        activities=Activities.of([(w, k, o, s * TENTH, e * TENTH) for w, k, o, s, e in did]),
        messages=Messages.of([(a, b, k, o, s * TENTH, e * TENTH) for a, b, k, o, s, e in went]),
    )


@pytest.mark.parametrize(
    ("works", "plan", "cause", "words"),
    [
        ((2, 2, 2, 2), 12, "scheduling", "Scheduling is 88 % of the critical path"),
        ((20, 20, 20, 20), 1, "processing", "in 'count'"),
        ((30, 10, 10, 10), 1, "straggler", "w1 works 3.0 times as long as the median of 4 workers"),
    ],
)
def test_the_first_cause(works, plan, cause, words):
    first, *_ = analyse_trace(rounds(works, plan), "rounds", ProfileOptions(window=3.0)).findings
    assert first.cause == cause
    assert words in first.text
    assert first.share > 0.6


def test_a_short_run_is_told_to_start_up():
    names = Names(workers=["driver"], kinds=(*RESERVED, "starting up", "driver program"))
    alone = Trace(
        names=names,
        activities=Activities.of([(0, 4, -1, 0, 7 * NS), (0, 5, -1, 7 * NS, 10 * NS)]),
        messages=Messages.of([]),
    )
    found = analyse_trace(alone, "short", ProfileOptions(window=20.0)).findings
    assert [each.cause for each in found] == ["start-up", "driver-program"]
    assert found[0].text.startswith("Starting up is 70 % of the critical path")


def test_the_usual_profile_does_not_show_the_straggler():
    made = analyse_trace(rounds((30, 10, 10, 10), 1), "rounds", ProfileOptions(window=3.0)).profile
    workers = {row["worker"]: row for row in made.by_worker().to_dicts()}
    assert workers["w1"]["critical"] > 0.8
    assert workers["w2"]["critical"] < 0.05
    assert workers["w1"]["profile"] < 4 * workers["w2"]["profile"]


def test_windows_in_which_everybody_waits():
    names = Names(workers=["a", "b"])
    asleep = Trace(
        names=names,
        activities=Activities.of([(0, 1, -1, 0, 9), (1, 1, -1, 0, 9)]),
        messages=Messages.of([(0, 1, 2, -1, 8, 9)]),
    )
    made = analyse_trace(asleep, "asleep", ProfileOptions(window=9e-9))
    assert made.profile.known == 0
    assert made.findings == []
    assert made.notes == [
        "no critical path leads through 1 of 1 window: every worker waited at some time"
    ]
    assert made.profile.by_activity()["critical"].sum() == 0


def test_windows_without_a_path_are_in_no_mean():
    """The first window has paths, in the second everybody waits."""
    half = Trace(
        names=Names(workers=["a", "b"], kinds=(*RESERVED, "processing")),
        activities=Activities.of([(0, 4, -1, 0, 10), (0, 1, -1, 10, 20), (1, 1, -1, 0, 20)]),
        messages=Messages.of([(0, 1, 2, -1, 18, 19)]),
    )
    made = analyse_trace(half, "half", ProfileOptions(window=10e-9)).profile
    assert (made.known, len(made.windows)) == (1, 2)
    found = made.by_activity()
    assert found["kind"].to_list() == ["processing"]
    assert found["profile"].sum() == pytest.approx(1)


def test_what_a_finding_gains_is_told():
    found = analyse_trace(rounds((30, 10, 10, 10), 1), "rounds", ProfileOptions(window=3.3))
    first, *others = found.findings
    assert (first.gain, first.seconds) == pytest.approx((20 / 33, 40))
    assert first.text.endswith(
        "If it had as much to do as the median worker, the run would be 61 % (40 s) shorter."
    )
    assert (first.place.worker, first.place.operator) == ("w1", "count")
    assert [each.value for each in first.evidence] == [60, 20]
    # It is the straggler's work that is on the path, so work has no gain of its own.
    (work,) = [each for each in others if each.cause == "processing"]
    assert (work.gain, work.weighty, first.certainty) == (None, False, Certainty.LIKELY)
    assert "shorter" not in work.text
    even = analyse_trace(rounds((20, 20, 20, 20), 12), "even", ProfileOptions(window=3.4)).findings
    assert [(each.cause, each.seconds) for each in even] == [("processing", 20), ("scheduling", 14)]
    assert even[1].text.endswith("If it took half the time, the run would be 21 % (14 s) shorter.")


def test_the_gain_of_anything_that_has_a_name():
    found = analyse_trace(rounds((30, 10, 10, 10), 5), "rounds", ProfileOptions(window=3.0))
    assert found.gain(worker="w1") == pytest.approx(40)
    assert found.gain(worker="w2") == 0
    assert found.gain(operator="count") == pytest.approx(60)
    assert found.gain(activity="scheduling") == pytest.approx(10)
    assert found.gain(worker="driver", to="w1") == pytest.approx(2)
    assert found.gain(worker="driver", to="w2") == 0
    with pytest.raises(TraceError, match="no worker 'w9'; it has driver, w1, w2"):
        found.gain(worker="w9")
    with pytest.raises(TraceError, match="no activity 'sleep'"):
        found.gain(activity="sleep")


def test_findings_of_a_diagnosis_come_first():
    said = Finding(cause="skew", text="Stage 3 is skewed.", advice="Salt it.", gain=0.4)
    asked = []

    def diagnosis(start, end):
        asked.append((start, end))
        return [said]

    trace = OpenedTrace(
        title="rounds",
        source=StoredTrace.of(rounds((30, 10, 10, 10), 8)),
        diagnosis=diagnosis,
    )
    first, *others = analyse(trace, ProfileOptions(window=4.0)).findings
    assert (first, asked) == (said, [trace.source.span])
    assert {each.cause for each in others} == {"processing", "scheduling"}
    # What the trace alone says has no gain then: the diagnosis knows better.
    assert [each.gain for each in others] == [None, None]
    assert not any("shorter" in each.text for each in others)


def suspect(cause, worker=None):
    change = Change(worker=worker, messages=False) if worker else Change(left=0.5)
    return Suspect(cause=cause, about=f"{cause}.", share=0.5, change=change)


@pytest.mark.parametrize(
    ("gain", "left"), [(0.3, ["processing"]), (0.01, ["processing", "straggler"])]
)
def test_gains_that_a_diagnosis_replaces_are_not_asked_for(gain, left):
    """If it explains nothing of weight, the worker that others wait for still counts."""
    told = Finding(cause="spill", text="Stage 3 spills.", advice="Use more memory.", gain=gain)
    general = [suspect("processing"), suspect("spill"), suspect("straggler", 1)]
    kept = beside(general, [told])
    assert [each.cause for each in kept] == left
    assert {each.cause for each in kept if each.change} == set(left) - {"processing"}
    assert all(each.change for each in general)


def test_what_the_trace_states_has_no_gain():
    idle = [(0, 4, -1, 0, 5), (0, 5, -1, 5, 20), (0, 0, -1, 20, 40)]
    trace = Trace(
        names=Names(workers=["a"], kinds=(*RESERVED, "processing", "idle")),
        activities=Activities.of([(w, k, o, s * NS, e * NS) for w, k, o, s, e in idle]),
        messages=Messages.of([]),
    )
    found = analyse_trace(trace, "idle", ProfileOptions(window=40.0)).findings
    assert {each.cause: each.gain for each in found} == {
        "processing": pytest.approx(2.5 / 40),
        "idle": None,
        "nothing-known": None,
    }
    certain = [each for each in found if each.certainty is Certainty.CERTAIN]
    assert [each.text for each in certain] == [
        "Unknown time is 50 % of the critical path (50 % of all time). The trace does not say what happened.",
        "Idle time is 38 % of the critical path (38 % of all time). Nothing was to be done: no job and no batch"
        " was running.",
    ]


def test_the_command(tmp_path, capsys):
    file = tmp_path / "app-1"
    file.write_bytes(b"".join([*small()[:9], b"nonsense\n", *small()[9:]]))
    assert execute(["profile", str(file), "--window", "10"]) == 0
    shown = capsys.readouterr()
    assert "small, Spark 4.3.0: 800 ms in 1 window; 3 workers" in shown.out
    assert "executor 1 core 2  62.5%        55.6%      7     0.50" in shown.out
    assert "note: line 10 was skipped" in shown.out
    assert execute(["profile", str(file), "--json"]) == 0
    body = json.loads(capsys.readouterr().out)
    first = body["findings"][0]
    assert first["cause"] == "straggler"
    place = {"operator": "Scan (count at job.py:1)", "worker": "executor 1 core 2"}
    assert first["place"] == place
    assert set(first) == {
        *("cause", "text", "advice", "gain", "seconds"),
        *("certainty", "place", "evidence", "share"),
    }
    assert sum(row["critical"] for row in body["activities"]) == pytest.approx(1)
    page = tmp_path / "page.html"
    assert execute(["profile", str(file), "--window", "0.2", "--html", str(page)]) == 0
    text = page.read_text()
    assert 'id="timeline"' not in text
    assert 'id="time"' in text
    assert "straggler" in text
    assert not re.search(r"(src|href)=.(?!data:)", text)
    assert execute(["profile", str(file), "--png", str(tmp_path / "png")]) == 0
    made = sorted((tmp_path / "png").iterdir())
    names = ["activities-by-window", "channels", "one-window-in-detail", "workers-by-window"]
    assert [each.stem for each in made] == names
    assert all(each.read_bytes().startswith(b"\x89PNG") for each in made)
    capsys.readouterr()
    assert execute(["profile", str(file), "--strict"]) == 2
    assert "line 10 of" in capsys.readouterr().err
    assert execute(["profile", str(tmp_path / "nothing")]) == 2
    assert "does not exist" in capsys.readouterr().err


def test_windows_in_which_everybody_waits_have_no_straggler():
    trace = rounds((30, 10, 10, 10), 1, steps=4)
    end = trace.span[1]
    waiting = RESERVED.index("waiting")
    quiet = Activities.of([(worker, waiting, -1, end, end + 4 * NS) for worker in range(5)])
    joined = Activities.joined(trace.activities, quiet)
    made = analyse_trace(
        Trace(names=trace.names, activities=joined, messages=trace.messages),
        "quiet",
        ProfileOptions(window=1.0),
    )
    first = made.findings[0]
    assert made.profile.known < len(made.profile.windows)
    assert first.cause == "straggler"
    assert first.seconds == pytest.approx(4 * 2)
