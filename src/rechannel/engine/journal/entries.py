"""What the journal can say: one frozen value per kind of entry, and the sealed file of each.

An entry is numbered and carries the epoch of the driver that wrote it; its body is one of the
kinds below. Bodies hold plain JSON values where they carry what others define (offsets, layouts,
staged results): what is folded is always what was read back from the file.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol, Self, TypeAlias

import xxhash

from rechannel.errors import DamagedStateError
from rechannel.model.configuration import Configuration
from rechannel.model.eventtime import Times
from rechannel.reconfigure.events import Event, Stepped, event_from_json
from rechannel.state.manifest import Edit
from rechannel.state.sealed import canonical, seal, unseal

FORMAT = 2
"""Version of the format of journal entries; readers refuse later ones, and read earlier ones."""

Json: TypeAlias = Any
"""A value that JSON can hold: None, bool, int, float, str, list or dict with str keys."""


class Body(Protocol):
    """What one kind of entry says."""

    def to_json(self) -> dict[str, Json]:
        """Plain JSON values."""

    @classmethod
    def from_json(cls, data: Mapping[str, Json]) -> Self:
        """Invert `to_json`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Opened:
    """A driver took over; a new epoch begins.

    host, pid: where it runs. time_ms: when, Unix milliseconds. fingerprint: of its program.
    version: of Rechannel. keep_versions: how many committed timesteps stay for looking back; the
    journal that appends the entry fills it in. id: a random word that no other opening has, of this
    directory or of a copy; "" in journals of before.
    """

    host: str
    pid: int
    time_ms: int
    fingerprint: str
    version: str
    keep_versions: int = 1
    id: str = ""

    def to_json(self) -> dict[str, Json]:
        """Plain JSON values."""
        return {
            "host": self.host,
            "pid": self.pid,
            "time_ms": self.time_ms,
            "fingerprint": self.fingerprint,
            "version": self.version,
            "keep_versions": self.keep_versions,
            **({"id": self.id} if self.id else {}),
        }

    @classmethod
    def from_json(cls, data: Mapping[str, Json]) -> Self:
        """Invert `to_json`."""
        return cls(**data)


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceRange:
    """What a timestep reads of one source: [start, end) in the source's own offsets.

    layout: how the range is split among tasks, so that a replay splits it the same way. incarnation: whose offsets
    these are; "" where the journal did not count yet.
    """

    start: Json
    end: Json
    layout: Json = None
    incarnation: str = ""

    def to_json(self) -> dict[str, Json]:
        """Plain JSON values."""
        data = {"start": self.start, "end": self.end, "layout": self.layout}
        return {**data, "incarnation": self.incarnation} if self.incarnation else data

    @classmethod
    def from_json(cls, data: Mapping[str, Json]) -> Self:
        """Invert `to_json`."""
        return cls(**data)


@dataclass(frozen=True, slots=True, kw_only=True)
class Intent:
    """A timestep will run: what it reads and under which configuration. Fixed for every replay.

    sources: by source name. configuration_version: what it runs under. configuration: the whole
    value, only where the journal does not know that version yet. now_ms: its time, Unix
    milliseconds. steps: of reconfigurations, that it begins with.
    """

    timestep: int
    sources: Mapping[str, SourceRange]
    configuration_version: int
    now_ms: int
    configuration: Configuration | None = None
    steps: tuple[Stepped, ...] = ()

    def __post_init__(self) -> None:
        """Check that version and value agree."""
        given = self.configuration
        if self.timestep < 0 or (given and given.version != self.configuration_version):
            msg = f"intent of timestep {self.timestep}: configuration and its version disagree"
            raise ValueError(msg)

    def to_json(self) -> dict[str, Json]:
        """Plain JSON values."""
        return {
            "timestep": self.timestep,
            "sources": {name: span.to_json() for name, span in self.sources.items()},
            "configuration_version": self.configuration_version,
            "now_ms": self.now_ms,
            "configuration": self.configuration.to_json() if self.configuration else None,
            **_steps_to_json(self.steps),
        }

    def digest(self, opening: str) -> str:
        """Return 32 hex digits (XXH3-128) that no other intent shares.

        opening: id of the `Opened` that is in force. Two copies of a state directory that go on by themselves journal
        the same timestep under different openings, so their digests differ even where all else is equal.
        """
        return xxhash.xxh3_128_hexdigest(canonical({"intent": self.to_json(), "opening": opening}))

    @classmethod
    def from_json(cls, data: Mapping[str, Json]) -> Self:
        """Invert `to_json`."""
        given = data["configuration"]
        return cls(
            timestep=data["timestep"],
            sources={name: SourceRange.from_json(s) for name, s in data["sources"].items()},
            configuration_version=data["configuration_version"],
            now_ms=data["now_ms"],
            configuration=Configuration.from_json(given) if given else None,
            steps=_steps_from_json(data),
        )


def _steps_to_json(steps: tuple[Stepped, ...]) -> dict[str, Json]:
    """Nothing for no steps: nearly all timesteps begin without."""
    return {"steps": [step.to_json() for step in steps]} if steps else {}


def _steps_from_json(data: Mapping[str, Json]) -> tuple[Stepped, ...]:
    return tuple(Stepped.model_validate(step) for step in data.get("steps", ()))


@dataclass(frozen=True, slots=True, kw_only=True)
class Committed:
    """A timestep is done: this entry is its commit.

    edits: what changes in the manifest, by operator. times: event time of the operators that go by
    it. offsets: where each source goes on. staged: result of each sink that waits to be published.
    outbox: keys of the output files, by operator.
    """

    timestep: int
    edits: Mapping[str, Edit] = field(default_factory=dict)
    times: Mapping[str, Times] = field(default_factory=dict)
    offsets: Mapping[str, Json] = field(default_factory=dict)
    staged: Mapping[str, Json] = field(default_factory=dict)
    outbox: Mapping[str, tuple[str, ...]] = field(default_factory=dict)

    def to_json(self) -> dict[str, Json]:
        """Plain JSON values."""
        return {
            "timestep": self.timestep,
            "edits": {name: edit.to_json() for name, edit in self.edits.items()},
            "offsets": dict(self.offsets),
            "staged": dict(self.staged),
            "outbox": {name: list(keys) for name, keys in self.outbox.items()},
            **times_to_json(self.times),
        }

    @classmethod
    def from_json(cls, data: Mapping[str, Json]) -> Self:
        """Invert `to_json`."""
        return cls(
            timestep=data["timestep"],
            edits={name: Edit.from_json(edit) for name, edit in data["edits"].items()},
            times=times_from_json(data),
            offsets=data["offsets"],
            staged=data["staged"],
            outbox={name: tuple(keys) for name, keys in data["outbox"].items()},
        )


def times_to_json(times: Mapping[str, Times]) -> dict[str, Json]:
    """Nothing where no operator goes by event time."""
    return {"times": {name: each.to_json() for name, each in times.items()}} if times else {}


def times_from_json(data: Mapping[str, Json]) -> dict[str, Times]:
    """Invert `times_to_json`."""
    return {name: Times.from_json(each) for name, each in data.get("times", {}).items()}


@dataclass(frozen=True, slots=True, kw_only=True)
class Published:
    """A sink owes one committed timestep no longer: readers see it, or it was given up.

    incarnation: of the sink; "" in journals of before. dropped: why it was given up; "" where readers see it.
    """

    timestep: int
    sink: str
    incarnation: str = ""
    dropped: str = ""

    def to_json(self) -> dict[str, Json]:
        """Plain JSON values."""
        return {
            "timestep": self.timestep,
            "sink": self.sink,
            **({"incarnation": self.incarnation} if self.incarnation else {}),
            **({"dropped": self.dropped} if self.dropped else {}),
        }

    @classmethod
    def from_json(cls, data: Mapping[str, Json]) -> Self:
        """Invert `to_json`."""
        return cls(**data)


@dataclass(frozen=True, slots=True, kw_only=True)
class Withdrawn:
    """Timesteps from one on that are not committed stop counting; their numbers are planned anew.

    reason: in words.
    """

    from_timestep: int
    reason: str

    def to_json(self) -> dict[str, Json]:
        """Plain JSON values."""
        return {"from_timestep": self.from_timestep, "reason": self.reason}

    @classmethod
    def from_json(cls, data: Mapping[str, Json]) -> Self:
        """Invert `to_json`."""
        return cls(**data)


@dataclass(frozen=True, slots=True, kw_only=True)
class ConfigurationChanged:
    """From a timestep on, another configuration holds; whatever was planned for later is void.

    cause: id of the request that led to it. steps: of reconfigurations, that it consists of. edits: state that
    operators begin with which were not there before. notes: bodies by kind that hold from the same moment.
    """

    from_timestep: int
    configuration: Configuration
    cause: str
    steps: tuple[Stepped, ...] = ()
    edits: Mapping[str, Edit] = field(default_factory=dict)
    notes: Mapping[str, Json] = field(default_factory=dict)

    def to_json(self) -> dict[str, Json]:
        """Plain JSON values."""
        edits = {name: edit.to_json() for name, edit in self.edits.items()}
        return {
            "from_timestep": self.from_timestep,
            "configuration": self.configuration.to_json(),
            "cause": self.cause,
            **_steps_to_json(self.steps),
            **({"edits": edits} if edits else {}),
            **({"notes": dict(self.notes)} if self.notes else {}),
        }

    @classmethod
    def from_json(cls, data: Mapping[str, Json]) -> Self:
        """Invert `to_json`."""
        return cls(
            from_timestep=data["from_timestep"],
            configuration=Configuration.from_json(data["configuration"]),
            cause=data["cause"],
            steps=_steps_from_json(data),
            edits={n: Edit.from_json(edit) for n, edit in data.get("edits", {}).items()},
            notes=data.get("notes", {}),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Reconfiguring:
    """Something happened to a reconfiguration that is no step of it."""

    event: Event

    def to_json(self) -> dict[str, Json]:
        """Plain JSON values."""
        return self.event.to_json()

    @classmethod
    def from_json(cls, data: Mapping[str, Json]) -> Self:
        """Invert `to_json`."""
        return cls(event=event_from_json(data))


@dataclass(frozen=True, slots=True, kw_only=True)
class Note:
    """Anything else worth keeping. The state holds the latest body of every kind.

    kind: what it is about. body: None forgets the kind.
    """

    kind: str
    body: Json

    def to_json(self) -> dict[str, Json]:
        """Plain JSON values."""
        return {"kind": self.kind, "body": self.body}

    @classmethod
    def from_json(cls, data: Mapping[str, Json]) -> Self:
        """Invert `to_json`."""
        return cls(**data)


@dataclass(frozen=True, slots=True, kw_only=True)
class Notes:
    """Several notes that hold from the same moment. bodies: by kind; None forgets the kind."""

    bodies: Mapping[str, Json]

    def to_json(self) -> dict[str, Json]:
        """Plain JSON values."""
        return {"bodies": dict(self.bodies)}

    @classmethod
    def from_json(cls, data: Mapping[str, Json]) -> Self:
        """Invert `to_json`."""
        return cls(**data)


@dataclass(frozen=True, slots=True, kw_only=True)
class Closed:
    """The driver ended of its own will. time_ms: when, Unix milliseconds."""

    time_ms: int

    def to_json(self) -> dict[str, Json]:
        """Plain JSON values."""
        return {"time_ms": self.time_ms}

    @classmethod
    def from_json(cls, data: Mapping[str, Json]) -> Self:
        """Invert `to_json`."""
        return cls(**data)


_KINDS: Mapping[str, type[Body]] = {
    "opened": Opened,
    "intent": Intent,
    "committed": Committed,
    "published": Published,
    "withdrawn": Withdrawn,
    "configuration_changed": ConfigurationChanged,
    "reconfiguring": Reconfiguring,
    "note": Note,
    "notes": Notes,
    "closed": Closed,
}
_NAMES: Mapping[type, str] = {kind: name for name, kind in _KINDS.items()}


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """One entry of the journal. number: 1 for the first. epoch: which driver wrote it."""

    number: int
    epoch: int
    body: Body

    @property
    def kind(self) -> str:
        """Name of the kind of the body, as the file spells it."""
        return _NAMES[type(self.body)]

    def to_bytes(self) -> bytes:
        """The sealed file. Raises TypeError or ValueError when a value is not JSON."""
        return seal(
            {
                "format": FORMAT,
                "number": self.number,
                "epoch": self.epoch,
                "kind": self.kind,
                "body": self.body.to_json(),
            }
        )

    @classmethod
    def from_bytes(cls, data: bytes | memoryview, *, name: str) -> Entry:
        """Invert `to_bytes`. name: what to call the file in messages.

        Raises DamagedStateError, NewerFormatError.
        """
        record = unseal(data, name=name, newest=FORMAT)
        try:
            body = _KINDS[record["kind"]].from_json(record["body"])
            return cls(number=record["number"], epoch=record["epoch"], body=body)
        except (KeyError, TypeError, ValueError) as error:
            msg = f"{name} is intact but makes no sense ({error!r}); restore it from a copy"
            raise DamagedStateError(msg) from error
