"""What profiles say in words."""

import json
import re

import pytest

from rechannel.cli.app import execute
from rechannel.profiling.model.analysis import ProfileOptions
from rechannel.profiling.model.gains import saved
from rechannel.profiling.model.participation import participation
from rechannel.profiling.model.timeline import timeline
from rechannel.profiling.model.trace import RESERVED, Activities, Messages, Names, Trace
from rechannel.profiling.model.window_graph import window_graph
from rechannel.profiling.reading import analyse_trace
from tests.unit.profiling.logs import small
from tests.unit.profiling.model.test_participation import PLAN, WORK, paper

NS = 1_000_000_000


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
    tenth = NS // 10
    for worker in range(1, len(works) + 1):
        did.append((worker, 1, -1, 0, now))
    return Trace(
        names=Names(
            workers=["driver", *(f"w{i}" for i in range(1, len(works) + 1))],
            operators=["count"],
            kinds=kinds,
        ),
        activities=Activities.of([(w, k, o, s * tenth, e * tenth) for w, k, o, s, e in did]),
        messages=Messages.of([(a, b, k, o, s * tenth, e * tenth) for a, b, k, o, s, e in went]),
    )


@pytest.mark.parametrize(
    ("works", "plan", "cause", "words"),
    [
        ((2, 2, 2, 2), 12, "scheduling", "make batches larger"),
        ((20, 20, 20, 20), 1, "processing", "'count'"),
        ((30, 10, 10, 10), 1, "straggler", "times as critical as the next worker"),
    ],
)
def test_the_first_cause(works, plan, cause, words):
    found = analyse_trace(rounds(works, plan), "rounds", ProfileOptions(window=3.0)).findings
    assert found[0].cause == cause
    assert words in found[0].text
    assert found[0].windows > 0.6 * found[0].of


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
    assert made.notes == ["1 of 1 windows have no critical path: every worker waited at some time"]
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


def test_what_could_be_won():
    trace = rounds((30, 10), 5, steps=1)
    begin, end = trace.span
    graph = window_graph(timeline(trace), trace.messages, begin, end)
    assert participation(graph).paths.total.mantissa[0] > 0
    tenth = NS // 10
    assert saved(graph, graph.kind == PLAN) == 5 * tenth
    assert saved(graph, graph.kind == WORK) == 30 * tenth
    assert saved(graph, (graph.kind == WORK) | (graph.kind == PLAN)) == 35 * tenth
    figure = window_graph(timeline(paper()), paper().messages, 2, 7)
    assert saved(figure, figure.kind == WORK) == 2


def test_how_much_shorter_a_run_could_get_is_told():
    first, *_ = analyse_trace(
        rounds((30, 10, 10, 10), 1), "rounds", ProfileOptions(window=3.3)
    ).findings
    assert first.gain == pytest.approx(30 / 33)
    assert first.text.endswith("Without it, windows would be at most 91% shorter.")


def test_the_command(tmp_path, capsys):
    file = tmp_path / "app-1"
    file.write_bytes(b"".join([*small()[:9], b"nonsense\n", *small()[9:]]))
    assert execute(["profile", str(file), "--window", "10"]) == 0
    shown = capsys.readouterr()
    assert "small, Spark 4.3.0: 0.8 s in 1 window; 3 workers" in shown.out
    assert "executor 1 core 2  62.5%        55.6%      7     0.50" in shown.out
    assert "note: line 10 was skipped" in shown.out
    assert execute(["profile", str(file), "--json"]) == 0
    body = json.loads(capsys.readouterr().out)
    assert body["findings"][0]["cause"] == "straggler"
    assert sum(row["critical"] for row in body["activities"]) == pytest.approx(1)
    page = tmp_path / "page.html"
    assert execute(["profile", str(file), "--window", "0.2", "--html", str(page)]) == 0
    text = page.read_text()
    assert text.count("data:image/png;base64,") == 4
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
        Trace(names=trace.names, activities=joined, messages=trace.messages), "quiet"
    )
    first = made.findings[0]
    assert made.profile.known < len(made.profile.windows)
    assert first.cause == "straggler"
    assert first.windows <= first.of == made.profile.known
