"""The word count of Heron in the simulator, under every policy.

A policy interval is a minute. Instances have a core each, and changes stop nothing. Back-pressure is exact, or that of
Heron: a queue of `HIGH_MB` stops the sources until it is down to `LOW_MB` (the defaults of
`heron.streammgr.network.backpressure`). What a record takes in a queue was not published, so it is assumed; how much
hangs on that is what `heron_range` shows.

Dynamic allocation scales executors of an engine whose operators share them: timesteps of 10 s on executors of one core,
with more tasks than are needed.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import product
from typing import TYPE_CHECKING

from benchmarks.ds2_heron_rates import COUNT, COUNTED, FLATMAP, LEAST, SENTENCES, SPLIT, WORDS

if TYPE_CHECKING:
    from rechannel.testing.scaling import Dataflow, Operator, Policy, Story

HIGH_MB, LOW_MB = 50.0, 30.0
SENTENCE_BYTES, WORD_BYTES = 200.0, 50.0
"""In a queue: characters, and what Heron adds to a tuple. Assumed."""
SENTENCES_BYTES, WORDS_BYTES = (120.0, 200.0, 300.0), (30.0, 50.0, 100.0)
"""Ranges of these."""
SECONDS, EVERY_S = 7_200.0, 60.0
TASKS = 64
"""Of an operator that shares executors."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """What became of a policy."""

    decisions: int
    last_s: float
    """When the last was made."""
    instances: dict[str, int]
    """At the end; none where operators share executors."""
    cores: float
    """At the end."""
    most: float
    """Cores at any time."""

    @property
    def over(self) -> float:
        """Cores at the end over those that are needed."""
        return self.cores / sum(LEAST.values())


def outcome(story: Story, instances: Sequence[str] = tuple(LEAST)) -> Outcome:
    """Return what became of a policy. instances: operators whose instances have a core each."""
    changes, last = story.changes, {name: n[-1] for name, n in story.parallelism.items()}
    return Outcome(
        decisions=len(changes),
        last_s=changes[-1].at_s if changes else 0.0,
        instances={name: int(last[name]) for name in instances},
        cores=float(story.cores[-1]),
        most=float(story.cores.max()),
    )


def word_count(queues_s: dict[str, float] | None = None) -> Dataflow[Operator]:
    """Return the dataflow. Its generator stands still while it is blocked, and never makes up for it.

    queues_s: what the queue of an instance holds, in seconds of its work.
    """
    from rechannel.testing.scaling import Constant, Dataflow, Operator, Source, topology

    held = queues_s or {FLATMAP: 1.0, COUNT: 1.0}
    source = Source(load=Constant(rate=SENTENCES), limit=SENTENCES, keeps=False)
    return Dataflow(
        topology=topology([("sentences", FLATMAP), (FLATMAP, COUNT)]),
        sources={"sentences": source},
        operators={
            FLATMAP: Operator(rate=SPLIT, selectivity={COUNT: WORDS}, queue_s=held[FLATMAP]),
            COUNT: Operator(rate=COUNTED, queue_s=held[COUNT]),
        },
    )


def on_exact(policy: Policy) -> Outcome:
    """Return what becomes of a policy under exact back-pressure."""
    from rechannel.testing.scaling import ContinuousEngine, simulate

    engine = ContinuousEngine(word_count())
    return outcome(simulate(engine, policy, until_s=SECONDS, every_s=EVERY_S))


def on_heron(
    policy: Policy, sentence_bytes: float = SENTENCE_BYTES, word_bytes: float = WORD_BYTES
) -> Outcome:
    """Return what becomes of a policy under the back-pressure of Heron."""
    from rechannel.testing.scaling import ContinuousEngine, simulate

    queues_s = {
        FLATMAP: HIGH_MB * 1e6 / sentence_bytes / SPLIT,
        COUNT: HIGH_MB * 1e6 / word_bytes / COUNTED,
    }
    engine = ContinuousEngine(word_count(queues_s), low_watermark=LOW_MB / HIGH_MB)
    return outcome(simulate(engine, policy, until_s=SECONDS, every_s=EVERY_S))


def heron_range(policy: Policy) -> Iterator[Outcome]:
    """Yield what becomes of a policy under the back-pressure of Heron, for every size of records in the range."""
    for sizes in product(SENTENCES_BYTES, WORDS_BYTES):
        yield on_heron(policy, *sizes)


def on_executors(policy: Policy) -> Outcome:
    """Return what becomes of a policy for executors."""
    from rechannel.testing.scaling import (
        BatchOperator,
        Constant,
        Dataflow,
        MicroBatchEngine,
        Pace,
        Source,
        simulate,
        topology,
    )

    dataflow = Dataflow(
        topology=topology([("sentences", FLATMAP), (FLATMAP, COUNT)]),
        sources={"sentences": Source(load=Constant(rate=SENTENCES))},
        operators={
            FLATMAP: BatchOperator(row_ms=1e3 / SPLIT, fixed_ms=5, selectivity={COUNT: WORDS}),
            COUNT: BatchOperator(row_ms=1e3 / COUNTED, fixed_ms=5),
        },
    )
    pace = Pace(interval_ms=10_000, in_flight=2, driver_ms=50, launch_ms=1)
    engine = MicroBatchEngine(dataflow, pace, {FLATMAP: TASKS, COUNT: TASKS}, executors=1)
    return outcome(simulate(engine, policy, until_s=SECONDS, every_s=EVERY_S), ())
