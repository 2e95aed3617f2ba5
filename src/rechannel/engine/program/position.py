"""Where a stream stands: one frozen value, which the driver publishes once per turn. Pure."""

from __future__ import annotations

from collections.abc import Mapping

from msgspec import Struct, field

from rechannel.model.configuration import Configuration
from rechannel.reconfigure.coordination import Coordination
from rechannel.state.manifest import Manifest


class StreamPosition(Struct, frozen=True, kw_only=True):
    """Where the stream stands: what a request is judged by, and what a job shows."""

    timestep: int
    """The next one."""
    time_ms: int
    """Time of the stream, Unix milliseconds."""
    configuration: Configuration
    """What the next timestep runs under."""
    drained: bool
    """Whether no timestep is in flight or has to run again."""
    event_times: Mapping[str, int] = field(default_factory=dict)
    """How far event time has come, of every operator that goes by it."""
    coordination: Coordination = field(default_factory=Coordination)
    """All reconfigurations."""
    manifests: Mapping[str, Manifest] = field(default_factory=dict)
    """By operator, its state as the units that have come back leave it."""
    tries: int = 0
    """How often a timestep or a look at the sources has failed and was tried again."""
    next_try_ms: float | None = None
    """When the next try is, on the clock that only passes; None = nothing has failed."""
