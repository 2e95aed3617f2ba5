"""The seam between the driver and telemetry: what is called when something happens in the loop."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol

from rechannel.kernels.tasks.unit_report import UnitReport
from rechannel.sources.backlog import Backlog


class Listener(Protocol):
    """Receives what happens (`telemetry.hub.Hub`). It must not raise and must not block."""

    def started(
        self,
        timestep: int,
        *,
        stream_ms: int,
        at_ms: float,
        offsets: Mapping[str, Any],
        configuration: int,
        backlog: Mapping[str, Backlog],
        inline: bool,
    ) -> None:
        """A timestep was decided.

        backlog: what it leaves unread, by source that can tell; empty in a replay. inline: whether the driver runs it.
        """

    def operator(self, timestep: int, operator: str, at_ms: float) -> None:
        """All tasks of an operator are done with a timestep."""

    def committed(
        self,
        timestep: int,
        *,
        reports: list[UnitReport],
        began_ms: float,
        at_ms: float,
        phases: Mapping[str, float],
        state: Mapping[str, tuple[int, int]],
        watermarks: Mapping[str, int],
        sources: frozenset[str],
    ) -> None:
        """The commit of a timestep is in the journal."""

    def failed(
        self, timestep: int | None, error: BaseException, *, again_ms: float | None = None
    ) -> None:
        """A timestep failed, or (None) a look at the sources. again_ms: until it is tried again; None = it is not."""

    def well(self) -> None:
        """What had failed has succeeded."""
