"""Traces of applications with many executors, made up, and what a page is made of."""

from __future__ import annotations

from random import Random

from rechannel.profiling.model.analysis import Analysis, OpenedTrace, ProfileOptions, analyse
from rechannel.profiling.model.landmarks import Landmarks, Mark, MarkKind
from rechannel.profiling.model.trace import MS, Activities, Messages, Names, Trace
from rechannel.profiling.spark.trace import SPARK_KINDS
from rechannel.profiling.storage.stored import StoredTrace

BEGIN = 1_700_000_000_000 * MS
SCAN, JOIN = "Scan parquet", "Exchange > SortMergeJoin on customer_id"
KIND = {name: number for number, name in enumerate(SPARK_KINDS)}


def cluster(executors: int, cores: int, rounds: int, *, seed: int = 1) -> Trace:
    """A driver that, in each round, starts a task on every core and waits for all of them: first scans, then joins.

    The first core works three times as long as the others.
    """
    random = Random(seed)
    names = [f"executor {e + 1} core {c + 1}" for e in range(executors) for c in range(cores)]
    did, went, now = [], [], BEGIN
    for number in range(rounds):
        operator = number % 2
        did.append((0, KIND["scheduling"], -1, now, now + 10 * MS))
        sent, ends = now + 10 * MS, []
        for worker in range(1, len(names) + 1):
            begin, work = sent + 2 * MS, random.randrange(60, 90) * (3 if worker == 1 else 1) * MS
            fetch = begin + operator * 5 * MS
            if operator:
                did.append((worker, KIND["fetch wait"], operator, begin, fetch))
            did.append((worker, KIND["processing"], operator, fetch, begin + work))
            went.append((0, worker, KIND["control message"], operator, sent, begin))
            end = begin + work
            went.append((worker, 0, KIND["control message"], operator, end, end + 2 * MS))
            ends.append(end + 2 * MS)
        did.append((0, KIND["waiting"], -1, sent, max(ends)))
        now = max(ends)
    did += [(worker, KIND["waiting"], -1, BEGIN, now) for worker in range(1, len(names) + 1)]
    return Trace(
        names=Names(workers=["driver", *names], operators=[SCAN, JOIN], kinds=SPARK_KINDS),
        activities=Activities.of(did),
        messages=Messages.of(went),
    )


def landmarks(trace: Trace, hosts: int = 0) -> Landmarks:
    """A job and a stage per round, executions of two jobs; executors on so many hosts, in turn."""
    acts = trace.activities
    starts = sorted(acts.start[acts.kind == KIND["scheduling"]].tolist())
    spans = list(zip(starts, [*starts[1:], trace.span[1]], strict=True))
    marks = [
        Mark(what=what, number=i, start=start, end=end, name=f"round {i}")
        for i, (start, end) in enumerate(spans)
        for what in (MarkKind.JOB, MarkKind.STAGE)
    ]
    marks += [
        Mark(what=MarkKind.EXECUTION, number=i // 2, start=spans[i][0], end=spans[i + 1][1])
        for i in range(0, len(spans) - 1, 2)
    ]
    executors = dict.fromkeys(name.split(" core")[0] for name in trace.names.workers[1:])
    places = {name: f"node-{i % hosts}" for i, name in enumerate(executors)} if hosts else {}
    return Landmarks(marks=marks, hosts=places, links=[(SCAN, JOIN)])


def analysed(
    trace: Trace, title: str = "a cluster", *, hosts: int = 0, window: float = 0.5
) -> Analysis:
    """The analysis of a trace of a cluster, with its landmarks."""
    opened = OpenedTrace(
        title=title, source=StoredTrace.of(trace), landmarks=landmarks(trace, hosts)
    )
    return analyse(opened, ProfileOptions(window=window))
