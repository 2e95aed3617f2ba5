"""Where a stream stands: what a request is judged by."""

from __future__ import annotations

from dataclasses import dataclass

from rechannel.model.configuration import Configuration


@dataclass(frozen=True, kw_only=True)
class Place:
    """Where the stream stands: what a request is judged by. configuration: of the timestep before `timestep`."""

    timestep: int
    time_ms: int
    configuration: Configuration
    drained: bool
