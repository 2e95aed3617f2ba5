"""Faults that were mended are put back in, one at a time: the schedules find each of them."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from importlib import import_module
from typing import Any

import pytest
from msgspec import structs

from rechannel.engine.journal.folds import notes
from rechannel.engine.loop.core import step as loop
from rechannel.engine.loop.core.events import StateRead
from rechannel.engine.loop.core.retrying import Outcome
from rechannel.engine.loop.core.state import LoopState
from rechannel.engine.loop.core.stream_time import StreamTime
from rechannel.engine.loop.heartbeat import Heartbeat
from rechannel.engine.publish import lane, publisher
from rechannel.errors import FencedError
from rechannel.reconfigure import coordination
from rechannel.reconfigure.record import Record
from rechannel.sinks import files, spare
from tests.property.test_seams import simulate

SCHEDULES = 500
PIECE = 10

Break = Callable[[pytest.MonkeyPatch], None]


def sinks_by_name(patch: pytest.MonkeyPatch) -> None:
    """What one sink is owed is given to the next one of its name."""
    patch.setattr(publisher, "incarnation", lambda notes, kind, name: name)
    for room in (publisher, lane):
        patch.setattr(room, "owed", lambda state, name, who: _owed(state, name))
    patch.setattr(lane.Lane, "give_up", lambda self, reason: None)


def _owed(state: Any, name: str) -> dict[int, Any]:
    return {t: sinks[name] for t, sinks in sorted(state.unpublished.items()) if name in sinks}


def offsets_by_name(patch: pytest.MonkeyPatch) -> None:
    """A source goes on where another one of its name was."""
    patch.setattr(notes, "inherited", lambda offsets, before, after: dict(offsets))


def published_by_number(patch: pytest.MonkeyPatch) -> None:
    """Output that exists under a number passes for published, whoever made it."""
    patch.setattr(files, "check", lambda *args, **named: None)
    patch.setattr(files, "check_published", lambda *args, **named: None)


def intents_for_ever(patch: pytest.MonkeyPatch) -> None:
    """A timestep that was intended is run again, whatever is asked for."""
    patch.setattr(
        import_module("rechannel.assembly.assemble"), "withdrawal", lambda state, **named: None
    )


def one_sign_fails(patch: pytest.MonkeyPatch) -> None:
    """The first sign that cannot be given is the last one."""

    def beat(self: Any) -> None:
        while not self._over.wait(self._seconds):
            try:
                self._renew()
            except FencedError as error:
                self._replaced(error)
                return
            except Exception:
                return

    patch.setattr(Heartbeat, "_beat", beat)


def any_clock(patch: pytest.MonkeyPatch) -> None:
    """Every reading of the clock is the time of the stream."""

    def read(self: StreamTime, wall_ms: int, steady_ms: float) -> StreamTime:
        del steady_ms
        return structs.replace(self, stream_ms=max(self.stream_ms, wall_ms))

    patch.setattr(StreamTime, "read", read)


def letters_beside_rows(patch: pytest.MonkeyPatch) -> None:
    """What was shown, or is a dead letter, before the journal heard of it is tried again as if it were neither."""
    patch.setattr(spare, "shows", lambda writer, batch: False)


def oldest_forgotten(patch: pytest.MonkeyPatch) -> None:
    """What was asked for first is forgotten first, even if it has ended only now."""

    def forgotten(records: list[Record], ended: str) -> frozenset[str]:
        del ended
        over = [record.id for record in records if not record.open]
        return frozenset(over[: -coordination.KEPT])

    patch.setattr(coordination, "_forgotten", forgotten)


def retried_on_its_own_traces(patch: pytest.MonkeyPatch) -> None:
    """A timestep that runs again goes on from the state that its first try left."""

    def kept(state: LoopState, event: StateRead) -> Outcome:
        del event
        return state.follow(state.plan, state.operators.manifests, state.operators.times), ()

    patch.setitem(loop._STEPS, StateRead, kept)


BROKEN: dict[str, Break] = {
    made.__name__: made
    for made in (
        sinks_by_name,
        offsets_by_name,
        published_by_number,
        intents_for_ever,
        one_sign_fails,
        any_clock,
        letters_beside_rows,
        oldest_forgotten,
        retried_on_its_own_traces,
    )
}


def found(name: str, first: int) -> tuple[int, str] | None:
    """The first schedule of a piece that fails with the fault put back in, and how. Without it, that one passes."""
    failed = broken(name, first)
    if failed is not None:
        simulate(failed[0])
    return failed


def broken(name: str, first: int) -> tuple[int, str] | None:
    with pytest.MonkeyPatch.context() as patch:
        BROKEN[name](patch)
        for seed in range(first, first + PIECE):
            try:
                simulate(seed)
            except Exception as error:
                return seed, f"{type(error).__name__}: {error}"
    return None


@pytest.mark.parametrize("name", sorted(BROKEN))
def test_what_a_fault_replaces_exists(name: str) -> None:
    with pytest.MonkeyPatch.context() as patch:
        BROKEN[name](patch)


@pytest.mark.slow
@pytest.mark.parametrize("name", sorted(BROKEN))
def test_a_fault_that_is_put_back_is_found(name: str, workers: ProcessPoolExecutor) -> None:
    pieces = range(0, SCHEDULES, PIECE)
    for first in pieces:
        failed = workers.submit(found, name, first).result()
        if failed is not None:
            print(f"{name}: schedule {failed[0]}: {failed[1][:200]}")
            return
    pytest.fail(f"{SCHEDULES} schedules do not find {name}")
