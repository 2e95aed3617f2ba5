"""Run timesteps as they were decided, on a runner, and nothing else: nothing is journalled, published or told."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from msgspec import structs

from rechannel.engine.journal.kept import Version
from rechannel.engine.loop.core.in_flight import folded, kept_of, step_of
from rechannel.engine.loop.core.state import InFlight, LoopState
from rechannel.engine.stages.runner import Runner, Timestep


@dataclass(frozen=True, slots=True, kw_only=True)
class Ran:
    """A timestep that has run: its output, and the state after it."""

    timestep: int
    version: Version
    """As a commit would have made it."""
    ms: float
    """How long it took."""


def run(
    state: LoopState, timesteps: Sequence[Timestep], runner: Runner, clock: Callable[[], float]
) -> Iterator[Ran]:
    """Yield the timesteps as they have run, one after the other, stage by stage.

    state: with the state of operators as of the timestep before. clock: milliseconds that pass.
    """
    for timestep in timesteps:
        began = clock()
        state = _opened(state, timestep, began)
        runner.open(timestep)
        for stage in state.plan.stages:
            unit = (stage.name, timestep.number)
            state = structs.replace(state, schedule=state.schedule.start(unit))
            reports = runner.run(timestep.number, stage.name, step_of(state, unit))
            state = folded(state, unit, reports)
            for node, keys in _kept(state, timestep.number).items():
                runner.kept(timestep.number, node, keys)
        made = Version(
            manifests=state.operators.manifests,
            outbox={n: tuple(keys) for n, keys in _kept(state, timestep.number).items()},
            stream_ms=timestep.stream_ms,
            times=state.operators.times,
        )
        runner.release(timestep.number)
        state = _closed(state, timestep.number)
        yield Ran(timestep=timestep.number, version=made, ms=clock() - began)


def _opened(state: LoopState, timestep: Timestep, at_ms: float) -> LoopState:
    flight = InFlight(timestep=timestep, began_ms=at_ms, decided_ms=at_ms)
    schedule = state.schedule.open(timestep.number)
    return structs.replace(state, in_flight={timestep.number: flight}, schedule=schedule)


def _closed(state: LoopState, number: int) -> LoopState:
    return structs.replace(state, in_flight={}, schedule=state.schedule.close(number))


def _kept(state: LoopState, number: int) -> Mapping[str, list[str]]:
    return kept_of(state.in_flight[number].reports)
