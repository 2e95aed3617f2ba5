"""Timelines against a twin that looks at every instant."""

from itertools import pairwise
from random import Random

import pytest

from rechannel.profiling.model.timeline import timeline
from rechannel.profiling.model.trace import Activities, Messages, Names, Trace
from tests.unit.profiling.model.test_participation import KINDS, WORK, random_trace

UNKNOWN, WAITING = 0, 1


def spans(trace, **options):
    line = timeline(trace, **options)
    columns = (line.worker, line.kind, line.operator, line.start, line.end)
    return [tuple(map(int, row)) for row in zip(*columns, strict=True)]


def naive(trace, *, threshold=0, waiting=True):
    """Spans, by going from instant to instant."""
    did, went = trace.activities, trace.messages
    begin, end = trace.span
    out = []
    for worker in range(len(trace.names.workers)):
        mine = [i for i in range(len(did)) if did.worker[i] == worker]
        mine.sort(key=lambda i: (did.start[i], -did.end[i]))
        sent = {int(t) for t, w in zip(went.sent, went.source, strict=True) if w == worker}
        got = {int(t) for t, w in zip(went.received, went.target, strict=True) if w == worker}
        active = []  # of every instant, the activity that began last
        for at in range(begin, end):
            there = [i for i in mine if did.start[i] <= at < did.end[i]]
            active.append(there[-1] if there else None)
        if not any(i is not None for i in active) and not sent | got:
            continue
        # Borders: where the activity is another one, or a message leaves or arrives.
        borders = [
            begin,
            *(
                begin + k
                for k in range(1, end - begin)
                if active[k] != active[k - 1] or begin + k in sent | got
            ),
            *([end] if end > begin else []),
        ]
        for one, two in pairwise(borders):
            now = active[one - begin]
            if now is not None:
                out.append((worker, int(did.kind[now]), int(did.operator[now]), one, two))
                continue
            before = active[one - 1 - begin] if one > begin else None
            after = active[two - begin] if two < end else None

            def part(i, first, last, worker=worker):
                if last > first:
                    out.append((worker, int(did.kind[i]), int(did.operator[i]), first, last))

            if two - one < threshold and (before is not None or after is not None):
                middle = one + (two - one) // 2
                middle = one if before is None else two if after is None else middle
                part(before, one, middle)
                part(after, middle, two)
                continue
            only_got = one in got and one not in sent and before is None
            waits = waiting and two - one >= threshold and two in got and not only_got
            out.append((worker, WAITING if waits else UNKNOWN, -1, one, two))
    return out


@pytest.mark.parametrize("part", range(10))
def test_as_from_instant_to_instant(part):
    met = 0
    for seed in range(part * 300, part * 300 + 300):
        rng = Random(seed)
        trace = random_trace(rng)
        options = {"threshold": rng.choice((0, 1, 3, 5)), "waiting": rng.random() < 0.8}
        found = spans(trace, **options)
        assert found == naive(trace, **options), seed
        met += any(span[1] == WAITING for span in found)
    assert met > 30


def one_worker(did, went=()):
    return Trace(
        names=Names(workers=["w", "other"], operators=["o", "p"], kinds=KINDS),
        activities=Activities.of([(0, WORK, *rest) for rest in did]),
        messages=Messages.of([(1, 0, 2, -1, *rest) for rest in went]),
    )


def test_the_inner_of_nested_activities_counts():
    trace = one_worker([(0, 0, 10), (1, 3, 5)])
    assert [s[2:] for s in spans(trace) if s[0] == 0] == [(0, 0, 3), (1, 3, 5), (0, 5, 10)]


def test_a_gap_that_ends_with_a_message_was_waiting():
    trace = one_worker([(0, 0, 2), (0, 7, 9)], [(1, 7)])
    assert [s[1:] for s in spans(trace) if s[0] == 0] == [
        (WORK, 0, 0, 2),
        (WAITING, -1, 2, 7),
        (WORK, 0, 7, 9),
    ]
