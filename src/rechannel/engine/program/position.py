"""Where a stream stands: what a request is judged by."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from rechannel.model.configuration import Configuration


@dataclass(frozen=True, kw_only=True)
class StreamPosition:
    """Where the stream stands: what a request is judged by. configuration: of the timestep before `timestep`.

    event_times: how far event time has come, of every operator that goes by it.
    """

    timestep: int
    time_ms: int
    configuration: Configuration
    drained: bool
    event_times: Mapping[str, int] = field(default_factory=dict)
