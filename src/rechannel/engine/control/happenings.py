"""What triggers of controllers look at, beside the timesteps: figures, watermarks, executors that are gone."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from rechannel.control.board import Board, Seat
from rechannel.control.triggers import METRICS, Moment
from rechannel.model.eventtime import NEVER

Executors = Callable[[], Sequence[str]]
"""Returns the ids of the executors that take tasks now."""


class Happenings:
    """Counts of what happened to the stream of one driver. Belongs to the driver's thread."""

    def __init__(self, executors: Executors) -> None:
        """executors: asks the cluster; called in the controllers' thread."""
        self._executors = executors
        self._counts: dict[str, int] = {}
        self._known: frozenset[str] | None = None

    def resume(self, board: Board) -> None:
        """Count on from what triggers have seen under earlier drivers."""
        for seat in board.seats.values():
            for event, count in ((seat.begun or {}).get("events") or {}).items():
                self._counts[event] = max(count, self._counts.get(event, 0))

    def at(self, times: Sequence[int]) -> None:
        """Take how far event time has come: as far as the operator that is least far. times: committed watermarks."""
        if times and (least := min(times)) > NEVER:
            self._counts["watermark"] = least // 1_000

    def look(self) -> frozenset[str]:
        """Return the executors that take tasks now. The controllers' thread calls it: a cluster may be slow."""
        return frozenset(self._executors())

    def looked(self, alive: frozenset[str], wanted: int | None) -> None:
        """Count the executors that are gone and were not given back. wanted: by the Configuration; None = any number.

        Those beyond the number that is wanted may be given back at any time: they leave at the end of a change, and it
        is wanted from its step on.
        """
        known, self._known = self._known, alive
        if known is None:
            return
        spare = 0 if wanted is None else max(0, len(known) - wanted)
        if (lost := len(known - alive) - spare) > 0:
            self._counts["executor_lost"] = self._counts.get("executor_lost", 0) + lost

    def moment(
        self,
        seat: Seat,
        timestep: int,
        time_ms: int,
        progress: Sequence[Any] = (),
        tasks: Sequence[Any] = (),
    ) -> Moment:
        """Return what a controller's trigger sees.

        timestep: the latest committed one. progress, tasks: `TimestepProgress` and `TimestepTasks` of the latest ones,
        as far as they are known.
        """
        own: Mapping[str, int] = {
            "change_done": seat.changes_done,
            "change_failed": seat.changes_failed,
        }
        return Moment(
            timestep=timestep,
            time_ms=time_ms,
            events={**self._counts, **own},
            progress=metrics_of(progress[-1:], timestep),
            calls=seat.calls,
            measured=tasks[-1].timestep if tasks else 0,
        )


def metrics_of(progress: Iterable[Any], timestep: int) -> dict[str, float]:
    """Return the metrics of a timestep for `when`, without those that have no value."""
    found = (
        (name, getattr(each, name))
        for each in progress
        for name in METRICS
        if each.timestep == timestep
    )
    return {name: float(value) for name, value in found if value is not None}
