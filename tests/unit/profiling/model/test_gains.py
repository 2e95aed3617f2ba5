"""What a run would gain: the longest path, compared with every path one by one, and with sums by hand."""

from random import Random

import numpy as np
import pytest

from rechannel.profiling.model.analysis import ProfileOptions
from rechannel.profiling.model.findings import GROUPS, suspects
from rechannel.profiling.model.gains import Change, gain, gains
from rechannel.profiling.model.participation import participation
from rechannel.profiling.model.paths import Lead, longest
from rechannel.profiling.model.pieces import Pieces, windows_of
from rechannel.profiling.model.summaries import profiled
from rechannel.profiling.model.timeline import timeline
from rechannel.profiling.model.trace import Activities, Messages, Names, Trace
from rechannel.profiling.model.window_graph import window_graph
from rechannel.profiling.reading import analyse_trace
from rechannel.profiling.storage.stored import StoredTrace
from tests.unit.profiling.model.test_findings import TENTH, rounds
from tests.unit.profiling.model.test_participation import (
    KINDS,
    PLAN,
    WORK,
    paper,
    random_window,
)

WAITING = KINDS.index("waiting")


def brute_force(line, went, graph, weight, left_out):
    """The longest of all paths, each walked to its end: over spans, messages and waiting.

    A place is a worker at a time, found in the timeline and not in the graph.
    """
    start, stop = graph.start, graph.end
    spans = [
        (int(w), max(int(a), start), min(int(b), stop), k == WAITING)
        for w, k, a, b in zip(line.worker, line.kind, line.start, line.end, strict=True)
        if b > start and a < stop
    ]
    lengths = iter(weight.tolist())
    following = {}
    for worker, begin, end, waits in spans:
        if not waits:
            following.setdefault((worker, begin), []).append(((worker, end), next(lengths)))
    got = set()
    for i, length in enumerate(lengths):
        edge = graph.spans + i
        source, target = (
            (int(w), int(graph.time[v]))
            for w, v in (
                (graph.worker[edge], graph.source[edge]),
                (graph.peer[edge], graph.target[edge]),
            )
        )
        got.add(target)
        if edge not in left_out:
            following.setdefault(source, []).append((target, length))
    goes_on = {(worker, begin): end for worker, begin, end, waits in spans if waits}
    for worker, begin, end, waits in spans:
        if waits:
            last = end
            while (worker, last) not in got and (worker, last) in goes_on:
                last = goes_on[worker, last]
            over = last == stop or (worker, last) in got
            following.setdefault((worker, begin), []).append(
                ((worker, end), 0 if over else end - begin)
            )
    workers = {worker for worker, *_ in spans}
    found = 0
    walks = [((worker, start), 0) for worker in workers]
    while walks:
        place, length = walks.pop()
        if place[1] == stop:
            found = max(found, length)
        walks += [(target, length + more) for target, more in following.get(place, ())]
    return found


def check(seed):
    """Compare one random graph with other lengths of its edges. Returns how much a change gained."""
    rng = Random(seed)
    window = random_window(rng)
    if window is None:
        return 0
    line, went, graph = window
    lead = Lead.of(graph)
    dropped = set(lead.left_out.tolist())
    without = np.where(graph.kind == rng.choice((PLAN, WORK, 3)), 0, graph.weight)
    any_lengths = np.array([rng.randint(0, 9) for _ in graph.kind], dtype=np.int64)
    for weight in (graph.weight, without, any_lengths):
        assert longest(graph, weight, lead) == brute_force(line, went, graph, weight, dropped)
    found = participation(graph)
    length = graph.end - graph.start
    if not found.idle and not dropped:
        assert longest(graph, graph.weight) == length
        # CP is the mean over the longest paths: what all of them lose is no more than that.
        critical = float(found.critical[without < graph.weight].sum())
        assert gain(graph, without) <= critical * length + 1e-6
    return gain(graph, without)


def test_the_longest_of_all_paths_of_random_graphs(thorough):
    count = 10_000 if thorough else 2_000
    won = sum(check(seed) > 0 for seed in range(count))
    assert won > count // 20


def test_every_change_of_the_snapshot_of_figure_2():
    trace = paper()
    graph = window_graph(timeline(trace), trace.messages, 2, 7)
    assert longest(graph, graph.weight) == 5
    assert gain(graph, Change(kinds=frozenset({WORK})).weight(graph)) == 2
    # One worker alone wins nothing: the other one was as late.
    assert gain(graph, Change(worker=0, messages=False).weight(graph)) == 0
    assert gain(graph, Change(worker=1, messages=False).weight(graph)) == 1
    assert Change(messages=True).edges(graph).sum() == 3
    assert Change(worker=0, peer=1).edges(graph).sum() == 2


def won(works, plan=1, steps=20, **change):
    """What a change gains in rounds of work, tenths of a second."""
    trace = StoredTrace.of(rounds(works, plan, steps))
    pieces = Pieces.of(trace, [trace.span])
    (ns,) = gains([Change(messages=False, **change)], pieces)
    assert ns % TENTH == 0
    return ns // TENTH


def test_equal_workers_do_not_straggle():
    assert [won((20,) * 4, worker=w, evened=True) for w in (1, 2, 3, 4)] == [0] * 4
    assert [won((20,) * 4, worker=w) for w in (1, 2, 3, 4)] == [0] * 4
    found = analyse_trace(rounds((20,) * 4, 1), "equal", ProfileOptions(window=3.0)).findings
    assert "straggler" not in [each.cause for each in found]


def test_one_worker_of_three_times_the_work():
    # All 20 rounds last 10 instead of 30 tenths if it works as long as the others.
    assert won((30, 10, 10, 10), worker=1, evened=True) == 20 * 20
    assert won((30, 10, 10, 10), worker=1) == 20 * 20
    assert won((30, 10, 10, 10), worker=1, left=0.5) == 20 * 15
    assert won((30, 10, 10, 10), worker=2) == 0
    assert won((30, 12, 10, 10), worker=1, evened=True) == 20 * 18
    # Of two workers, the median is in their middle.
    assert won((30, 10), worker=1, evened=True) == 20 * 10


def test_two_that_are_equally_slow_gain_nothing_alone():
    assert [won((30, 30, 10, 10), worker=w, evened=True) for w in (1, 2)] == [0, 0]
    assert [won((30, 30, 10, 10), worker=w) for w in (1, 2)] == [0, 0]
    found = analyse_trace(rounds((30, 30, 10, 10), 1), "two", ProfileOptions(window=3.3)).findings
    assert "straggler" not in [each.cause for each in found]
    # The second one is nearly as slow: that is all that mending the first one gains.
    assert won((30, 28, 10, 10), worker=1, evened=True) == 20 * 2


def test_operators_are_compared_with_themselves_only():
    """A worker that alone does the work of an operator is not slow at it."""
    names = Names(workers=["a", "b"], operators=["map", "collect"], kinds=KINDS)
    did = [(0, WORK, 0, 0, 10), (1, WORK, 0, 0, 10), (0, WORK, 1, 12, 40), (1, 1, -1, 10, 40)]
    trace = Trace(
        names=names,
        activities=Activities.of(did),
        messages=Messages.of([(1, 0, 2, -1, 10, 12)]),
    )
    graph = window_graph(timeline(trace), trace.messages, 0, 40)
    assert gain(graph, Change(worker=0, messages=False, evened=True).weight(graph)) == 0
    assert gain(graph, Change(worker=0, operator=1).weight(graph)) == 28


def test_waiting_that_no_message_ends_keeps_its_length():
    """a sleeps from 10 to 20; b waits from 4 for what a sends at 30."""
    names = Names(workers=["a", "b"], kinds=KINDS)
    did = [(0, WORK, -1, 0, 10), (0, WAITING, -1, 10, 20), (0, PLAN, -1, 20, 30)]
    did += [(1, WORK, -1, 0, 4), (1, WAITING, -1, 4, 31), (1, WORK, -1, 31, 35)]
    trace = Trace(
        names=names,
        activities=Activities.of(did),
        messages=Messages.of([(0, 1, 2, -1, 30, 31)]),
    )
    graph = window_graph(timeline(trace), trace.messages, 0, 35)
    assert participation(graph).idle
    assert longest(graph, graph.weight) == 35
    assert gain(graph, Change(kinds=frozenset({PLAN})).weight(graph)) == 10
    # What ends a window in its middle is not known in it, and neither is what begins one.
    first = window_graph(timeline(trace), trace.messages, 2, 15)
    assert longest(first, first.weight) == 8
    later = window_graph(timeline(trace), trace.messages, 15, 31)
    assert longest(later, later.weight) == 16
    assert gain(later, Change(kinds=frozenset({PLAN})).weight(later)) == 10


def test_a_message_under_way_at_a_boundary():
    names = Names(workers=["a", "b"], kinds=KINDS)
    did = [(0, WORK, -1, 0, 10), (1, WAITING, -1, 0, 20), (1, WORK, -1, 20, 30)]
    did += [(0, WAITING, -1, 10, 30)]
    trace = Trace(
        names=names, activities=Activities.of(did), messages=Messages.of([(0, 1, 3, -1, 10, 20)])
    )
    line = timeline(trace)
    ends, begins = (window_graph(line, trace.messages, *span) for span in ((0, 15), (15, 30)))
    assert [longest(each, each.weight) for each in (ends, begins)] == [15, 15]
    data = Change(kinds=frozenset({3}))
    assert [gain(each, data.weight(each)) for each in (ends, begins)] == [5, 5]


@pytest.mark.parametrize("window", [33, 66, 330, 660])
def test_pieces_add_up(window):
    """However the rounds are grouped in windows and pieces, the gain is the same."""
    trace = StoredTrace.of(rounds((30, 10, 10, 10), 1))
    windows = windows_of(trace.span, window * TENTH)
    asked = [Change(worker=1, messages=False, evened=True), Change(worker=2, messages=False)]
    for rows in (None, 30):
        assert gains(asked, Pieces.of(trace, windows, rows=rows)) == [400 * TENTH, 0]


def test_no_suspect_gains_more_than_its_share():
    trace = StoredTrace.of(rounds((30, 25, 10, 10), 4))
    pieces = Pieces.of(trace, windows_of(trace.span, 7 * 10**9))
    found = suspects(profiled(pieces))
    assert {each.cause for each in found} >= {"processing", "straggler", "scheduling"}
    length = trace.span[1] - trace.span[0]
    shares = [ns / length for ns in gains([each.change for each in found], pieces)]
    assert all(ns <= each.share + 1e-9 for ns, each in zip(shares, found, strict=True))
    assert set(GROUPS) >= {each.cause for each in found} - {"processing", "straggler"}
