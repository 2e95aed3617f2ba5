"""What the journal can say: one frozen value per kind of entry, and the sealed file of each.

An entry is numbered and carries the epoch of the driver that wrote it; its body is one of the
kinds below. Bodies hold plain JSON values where they carry what others define (offsets, layouts,
staged results): what is folded is always what was read back from the file.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Annotated, TypeAlias

import xxhash

from rechannel.errors import DamagedStateError
from rechannel.model.codec import ABSENT, Json, closed, decode, encode, form
from rechannel.model.configuration import Configuration
from rechannel.model.eventtime import Times
from rechannel.reconfigure.events import Event, Stepped
from rechannel.state.manifest import Edit
from rechannel.state.sealed import canonical, seal, unseal

FORMAT = 2
"""Version of the format of journal entries; readers refuse later ones, and read earlier ones."""


@closed
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
    id: Annotated[str, ABSENT] = ""


@closed
@dataclass(frozen=True, slots=True, kw_only=True)
class SourceRange:
    """What a timestep reads of one source: [start, end) in the source's own offsets.

    layout: how the range is split among tasks, so that a replay splits it the same way. incarnation: whose offsets
    these are; "" where the journal did not count yet.
    """

    start: Json
    end: Json
    layout: Json = None
    incarnation: Annotated[str, ABSENT] = ""


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
    steps: Annotated[tuple[Stepped, ...], ABSENT] = ()

    def __post_init__(self) -> None:
        """Check that version and value agree."""
        given = self.configuration
        if self.timestep < 0 or (given and given.version != self.configuration_version):
            msg = f"intent of timestep {self.timestep}: configuration and its version disagree"
            raise ValueError(msg)

    def digest(self, opening: str) -> str:
        """Return 32 hex digits (XXH3-128) that no other intent shares.

        opening: id of the `Opened` that is in force. Two copies of a state directory that go on by themselves journal
        the same timestep under different openings, so their digests differ even where all else is equal.
        """
        return xxhash.xxh3_128_hexdigest(canonical({"intent": encode(self), "opening": opening}))


@dataclass(frozen=True, slots=True, kw_only=True)
class Committed:
    """A timestep is done: this entry is its commit.

    edits: what changes in the manifest, by operator. times: event time of the operators that go by
    it. offsets: where each source goes on. staged: result of each sink that waits to be published.
    outbox: keys of the output files, by operator.
    """

    timestep: int
    edits: Mapping[str, Edit] = field(default_factory=dict)
    times: Annotated[Mapping[str, Times], ABSENT] = field(default_factory=dict)
    offsets: Mapping[str, Json] = field(default_factory=dict)
    staged: Mapping[str, Json] = field(default_factory=dict)
    outbox: Mapping[str, tuple[str, ...]] = field(default_factory=dict)


@closed
@dataclass(frozen=True, slots=True, kw_only=True)
class Published:
    """A sink owes one committed timestep no longer: readers see it, or it was given up.

    incarnation: of the sink; "" in journals of before. dropped: why it was given up; "" where readers see it.
    """

    timestep: int
    sink: str
    incarnation: Annotated[str, ABSENT] = ""
    dropped: Annotated[str, ABSENT] = ""


@closed
@dataclass(frozen=True, slots=True, kw_only=True)
class Withdrawn:
    """Timesteps from one on that are not committed stop counting; their numbers are planned anew.

    reason: in words.
    """

    from_timestep: int
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ConfigurationChanged:
    """From a timestep on, another configuration holds; whatever was planned for later is void.

    cause: id of the request that led to it. steps: of reconfigurations, that it consists of. edits: state that
    operators begin with which were not there before. notes: bodies by kind that hold from the same moment.
    """

    from_timestep: int
    configuration: Configuration
    cause: str
    steps: Annotated[tuple[Stepped, ...], ABSENT] = ()
    edits: Annotated[Mapping[str, Edit], ABSENT] = field(default_factory=dict)
    notes: Annotated[Mapping[str, Json], ABSENT] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Reconfiguring:
    """Something happened to a reconfiguration that is no step of it. It is written as the event."""

    event: Event


form(
    Reconfiguring,
    encode=lambda body: encode(body.event, Event),
    decode=lambda data: Reconfiguring(event=decode(Event, data)),
)


@closed
@dataclass(frozen=True, slots=True, kw_only=True)
class Note:
    """Anything else worth keeping. The state holds the latest body of every kind.

    kind: what it is about. body: None forgets the kind.
    """

    kind: str
    body: Json


@closed
@dataclass(frozen=True, slots=True, kw_only=True)
class Notes:
    """Several notes that hold from the same moment. bodies: by kind; None forgets the kind."""

    bodies: Mapping[str, Json]


@closed
@dataclass(frozen=True, slots=True, kw_only=True)
class Closed:
    """The driver ended of its own will. time_ms: when, Unix milliseconds."""

    time_ms: int


Body: TypeAlias = (
    Opened
    | Intent
    | Committed
    | Published
    | Withdrawn
    | ConfigurationChanged
    | Reconfiguring
    | Note
    | Notes
    | Closed
)
"""What one kind of entry says."""

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
                "body": encode(self.body),
            }
        )

    @classmethod
    def from_bytes(cls, data: bytes | memoryview, *, name: str) -> Entry:
        """Invert `to_bytes`. name: what to call the file in messages.

        Raises DamagedStateError, NewerFormatError.
        """
        record = unseal(data, name=name, newest=FORMAT)
        try:
            body = decode(_KINDS[record["kind"]], record["body"])
            return cls(number=record["number"], epoch=record["epoch"], body=body)
        except (KeyError, TypeError, ValueError) as error:
            msg = f"{name} is intact but makes no sense ({error!r}); restore it from a copy"
            raise DamagedStateError(msg) from error
