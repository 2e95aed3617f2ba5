"""Versions of the state that are kept: the latest ones, and those that have a name. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import TypeVar

from msgspec import Struct, field
from msgspec.structs import force_setattr

from rechannel.model.codec import Json
from rechannel.model.configuration import Configuration
from rechannel.model.eventtime import Clock, Times
from rechannel.state.manifest import Manifest

K = TypeVar("K")
V = TypeVar("V")


class Version(Struct, frozen=True, kw_only=True):
    """State and output as of one committed timestep."""

    manifests: Mapping[str, Manifest] = field(default_factory=dict)
    """Live state, by operator."""
    outbox: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """Keys of the files of sink buffers of this timestep, by operator."""
    stream_ms: int = 0
    """Time of the timestep, Unix milliseconds; timeouts compare with it."""
    times: Mapping[str, Times] = field(default_factory=dict)
    """Event time by operator, of those that go by it."""

    def __post_init__(self) -> None:
        """Freeze the mappings."""
        force_setattr(self, "manifests", frozen(self.manifests))
        force_setattr(self, "times", frozen(self.times))
        force_setattr(self, "outbox", frozen(self.outbox))

    def clock(self, operator: str) -> Clock:
        """Return the times by which an operator's state is read."""
        times = self.times.get(operator, Times())
        return times.clock(operator, self.stream_ms)

    def files(self) -> set[str]:
        """Return the keys of all segments and sink buffer files of this version."""
        segments = set[str]().union(*(m.segments() for m in self.manifests.values()))
        return segments.union(*self.outbox.values())


class Savepoint(Struct, frozen=True, kw_only=True):
    """A committed timestep that has a name: all that another state directory needs to begin there.

    Sinks are owed nothing by it: it has no sink buffers.
    """

    timestep: int
    time_ms: int
    """When it got its name, Unix milliseconds."""
    cause: str
    """Who gave it, and why."""
    version: Version
    offsets: Mapping[str, Json]
    """Where each source continues."""
    configuration: Configuration
    """Of the timestep after it."""
    notes: Mapping[str, Json]
    """As they were then."""


def frozen(mapping: Mapping[K, V]) -> Mapping[K, V]:
    """Return a mapping that cannot be changed."""
    return mapping if isinstance(mapping, MappingProxyType) else MappingProxyType(dict(mapping))
