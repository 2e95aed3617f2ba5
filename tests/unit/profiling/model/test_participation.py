"""Critical participation: the paper's example, and every path counted one by one."""

from collections import Counter
from fractions import Fraction
from random import Random

import numpy as np
import polars as pl
import pytest

from rechannel.profiling.model.participation import participation
from rechannel.profiling.model.paths import count_paths
from rechannel.profiling.model.timeline import timeline
from rechannel.profiling.model.trace import Activities, Messages, Names, Trace
from rechannel.profiling.model.window_graph import window_graph
from rechannel.profiling.reading import profile_trace

KINDS = ("unknown", "waiting", "control message", "data message", "processing", "scheduling")
WORK, PLAN, DATA = 4, 5, 3


def paper() -> Trace:
    """Figure 2 of the paper: w1 waits from b to c."""
    return Trace(
        names=Names(workers=["w1", "w2"], kinds=KINDS),
        activities=Activities.of(
            [
                (0, WORK, -1, 0, 1),
                (0, WORK, -1, 5, 6),
                (0, WORK, -1, 6, 9),
                (1, WORK, -1, 1, 3),
                (1, WORK, -1, 3, 4),
                (1, WORK, -1, 4, 8),
            ]
        ),
        messages=Messages.of(
            [(0, 1, DATA, -1, 1, 3), (1, 0, DATA, -1, 4, 5), (0, 1, DATA, -1, 6, 8)]
        ),
    )


def test_the_snapshot_of_figure_2():
    trace = paper()
    graph = window_graph(timeline(trace), trace.messages, 2, 7)
    found = participation(graph)
    edges = {
        (int(graph.worker[e]), int(graph.peer[e]), int(graph.time[graph.source[e]])): critical
        for e, critical in enumerate(found.critical)
    }
    assert {edge: round(critical, 4) for edge, critical in edges.items()} == {
        (0, 1, 2): 0.1,
        (1, 1, 2): 0.1,
        (1, 1, 3): 0.2,
        (1, 0, 4): 0.1333,
        (1, 1, 4): 0.2,
        (0, 0, 5): 0.1333,
        (0, 0, 6): 0.0667,
        (0, 1, 6): 0.0667,
    }
    assert float(np.ldexp(found.paths.total.mantissa, found.paths.total.exponent)[0]) == 6
    assert found.critical.sum() == pytest.approx(1, abs=1e-12)
    assert found.critical[graph.spans :].sum() == pytest.approx(0.3)


def random_trace(rng: Random) -> Trace:
    """Few workers, times close together: much happens at once."""
    workers, most = rng.randint(1, 4), rng.choice((6, 12, 30))

    def interval(least: int = 0) -> tuple[int, int]:
        one = rng.randint(0, most - 1)
        return one, min(most, one + rng.randint(least, rng.choice((1, 3, 8))))

    did = [
        (rng.randrange(workers), rng.choice((1, WORK, WORK, PLAN)), rng.randint(-1, 1), *interval())
        for _ in range(rng.randint(0, 12))
    ]
    went = [
        (rng.randrange(workers), rng.randrange(workers), rng.choice((2, 3)), -1, *interval())
        for _ in range(rng.randint(0, 6))
    ]
    return Trace(
        names=Names(workers=[f"w{i}" for i in range(workers)], operators=["o", "p"], kinds=KINDS),
        activities=Activities.of(did),
        messages=Messages.of(went),
    )


def enumerate_paths(graph, dropped):
    """How many paths contain each edge, and all of them: path by path."""
    following = {}
    for edge, source in enumerate(graph.source.tolist()):
        if edge not in dropped:
            following.setdefault(source, []).append(edge)
    final, through, paths = set(graph.final.tolist()), Counter(), 0
    stack = [(vertex, ()) for vertex in graph.initial.tolist()]
    while stack:
        vertex, path = stack.pop()
        if vertex in final:
            paths += 1
            through.update(path)
        for edge in following.get(vertex, ()):
            stack.append((int(graph.target[edge]), (*path, edge)))
    return paths, through


def random_window(rng):
    """A window of a random trace: its timeline, messages and graph; None if the trace is too short."""
    trace = random_trace(rng)
    begin, end = trace.span
    if end - begin < 2:
        return None
    start = rng.randint(begin, end - 1)
    stop = rng.randint(start + 1, end)
    line = timeline(trace, threshold=rng.choice((0, 0, 2, 4)), waiting=rng.random() < 0.8)
    return line, trace.messages, window_graph(line, trace.messages, start, stop)


def check(seed: int) -> int:
    window = random_window(Random(seed))
    if window is None:
        return 0
    _, _, graph = window
    found = participation(graph)
    dropped = set(found.paths.left_out.tolist())
    paths, through = enumerate_paths(graph, dropped)
    total = found.paths.total
    assert float(np.ldexp(total.mantissa[0], total.exponent[0])) == paths
    assert found.idle == (paths == 0)
    for edge, critical in enumerate(found.critical):
        expected = Fraction(0)
        if paths:
            expected = Fraction(
                through[edge] * int(graph.weight[edge]), paths * (graph.end - graph.start)
            )
        assert critical == pytest.approx(float(expected), rel=1e-12)
    if paths:
        assert found.critical.sum() == pytest.approx(1, abs=1e-9)
    return int(paths > 1)


def test_every_path_of_small_graphs(thorough):
    count = 10_000 if thorough else 2_000
    several = sum(check(seed) for seed in range(count))
    assert several > count // 5


def test_counts_beyond_any_float():
    """A ladder of two workers that send to each other all the time has 2^steps paths."""
    steps = 40_000
    at = np.arange(steps, dtype=np.int64)
    nothing = np.zeros(steps, dtype=np.int32)
    did = Activities(
        worker=np.repeat([0, 1], steps).astype(np.int32),
        kind=np.full(2 * steps, WORK, dtype=np.int32),
        operator=np.full(2 * steps, -1, dtype=np.int32),
        start=np.tile(at, 2),
        end=np.tile(at + 1, 2),
    )
    went = Messages(
        source=np.repeat([0, 1], steps).astype(np.int32),
        target=np.repeat([1, 0], steps).astype(np.int32),
        kind=np.full(2 * steps, DATA, dtype=np.int32),
        operator=np.concatenate([nothing, nothing]) - 1,
        sent=np.tile(at, 2),
        received=np.tile(at + 1, 2),
    )
    trace = Trace(names=Names(workers=["a", "b"], kinds=KINDS), activities=did, messages=went)
    graph = window_graph(timeline(trace), went, 0, steps)
    paths = count_paths(graph)
    # Every vertex has twice as many ways to it as those of before; powers of two are exact.
    assert (paths.total.mantissa[0], paths.total.exponent[0]) == (0.5, steps + 2)
    critical = participation(graph).critical
    assert critical.sum() == pytest.approx(1, abs=1e-9)
    assert np.allclose(critical, 1 / (4 * steps), rtol=1e-9)


def by_edge(trace, window):
    made = profile_trace(trace, window=window)
    assert made.windows["left_out"].sum() == 0
    return {
        (row["window"], row["kind"], row["worker"], row["peer"], row["message"]): row["critical"]
        for row in made.cells.group_by("window", "kind", "worker", "peer", "message")
        .agg(pl.sum("critical"))
        .collect()
        .to_dicts()
    }


@pytest.mark.parametrize("seed", range(200))
def test_neither_place_nor_unit_of_time_matters(seed):
    rng = Random(seed)
    trace = random_trace(rng)
    begin, end = trace.span
    if end - begin < 2:
        return
    window = rng.randint(2, end - begin)
    moved = timed(trace, lambda t: t + 10**18)
    scaled = timed(trace, lambda t: t * 1_000)
    try:
        known = by_edge(trace, window)
    except AssertionError:
        return  # messages in a circle: which one is left out is a matter of order
    assert by_edge(moved, window) == pytest.approx(known)
    assert by_edge(scaled, window * 1_000) == pytest.approx(known)
    other = list(range(len(trace.names.workers)))
    rng.shuffle(other)
    found = by_edge(relabelled(trace, np.array(other, dtype=np.int32)), window)
    assert found == pytest.approx(
        {(w, k, other[a], other[b], m): v for (w, k, a, b, m), v in known.items()}
    )


def timed(trace, change):
    did, went = trace.activities, trace.messages
    return Trace(
        names=trace.names,
        activities=Activities(
            worker=did.worker,
            kind=did.kind,
            operator=did.operator,
            start=change(did.start),
            end=change(did.end),
        ),
        messages=Messages(
            source=went.source,
            target=went.target,
            kind=went.kind,
            operator=went.operator,
            sent=change(went.sent),
            received=change(went.received),
        ),
    )


def relabelled(trace, other):
    did, went = trace.activities, trace.messages
    return Trace(
        names=trace.names,
        activities=Activities(
            worker=other[did.worker],
            kind=did.kind,
            operator=did.operator,
            start=did.start,
            end=did.end,
        ),
        messages=Messages(
            source=other[went.source],
            target=other[went.target],
            kind=went.kind,
            operator=went.operator,
            sent=went.sent,
            received=went.received,
        ),
    )


def test_an_activity_in_two_parts_is_as_critical_as_in_one():
    trace = paper()
    did = trace.activities
    whole = by_edge(trace, 9)
    rows = [
        (int(did.worker[i]), int(did.kind[i]), -1, int(did.start[i]), int(did.end[i]))
        for i in range(6)
    ]
    cut = [row for row in rows if row[3:] != (4, 8)] + [(1, WORK, -1, 4, 7), (1, WORK, -1, 7, 8)]
    parts = Trace(names=trace.names, activities=Activities.of(cut), messages=trace.messages)
    assert by_edge(parts, 9) == pytest.approx(whole)


def test_waiting_is_never_critical():
    trace = paper()
    made = profile_trace(trace, window=9)
    kinds = made.by_activity()["kind"].to_list()
    assert "waiting" not in kinds
    assert set(kinds) == {"processing", "data message", "unknown"}
