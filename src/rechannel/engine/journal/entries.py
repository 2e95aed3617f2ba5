"""The entries of the journal: one frozen value per kind, and the sealed file of each.

An entry is numbered and carries the epoch of the driver that wrote it; its body is one of the kinds
below. What others define (offsets, layouts, staged results) is plain JSON in a body, because the state
is always folded from what was read back from the file.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Annotated, TypeAlias, TypeGuard

import xxhash

from rechannel.control.events import Completed, ControlEvent
from rechannel.errors import DamagedStateError
from rechannel.model.bad_rows import Counted
from rechannel.model.codec import ABSENT, Json, closed, decode, encode, form, written
from rechannel.model.configuration import Configuration
from rechannel.model.eventtime import Times
from rechannel.reconfigure.events import Event, Stepped
from rechannel.state.manifest import Edit
from rechannel.state.run_table import RunTable
from rechannel.state.sealed import canonical, seal, unseal

FORMAT = 2
"""Version of the format of journal entries; readers refuse later ones, and read earlier ones."""

CONTROLLED = 3
"""Version of entries that control operations are part of: releases that know of none would lose them."""

LASTING = 4
"""Version of openings, which stay for ever: earlier releases would delete them, and with them the fence."""

RENAMING = 5
"""Version of entries that give operators and sources other names: earlier releases would lose their state."""


SAVING = 6
"""Version of entries about savepoints and resets, and of openings that begin at a savepoint: earlier releases would
remove its files, or read sources from elsewhere."""

EDITING = 7
"""Version of entries about edits of state: earlier releases would go on with the state from before."""

COLUMNS = 8
"""Version of commits whose runs are columns, as those of operators with many tasks are: earlier releases cannot read
them.
"""


@closed
@dataclass(frozen=True, slots=True, kw_only=True)
class Beginning:
    """What a state directory begins with that goes on from a savepoint of another one."""

    origin: str
    """The state directory with the savepoint."""
    savepoint: str
    """Its name; empty if it begins at the latest commit of then."""
    timestep: int
    """The latest committed one."""
    stream_ms: int
    """Its time, Unix milliseconds."""
    edits: Mapping[str, Edit]
    """State, by operator."""
    times: Mapping[str, Times]
    """Event time by operator, of those that go by it."""
    offsets: Mapping[str, Json]
    """Where each source continues."""
    configuration: Configuration
    """Of the timestep after it."""
    notes: Mapping[str, Json]
    """By kind."""


@closed
@dataclass(frozen=True, slots=True, kw_only=True)
class Opened:
    """A driver took over; a new epoch begins."""

    host: str
    pid: int
    time_ms: int
    """When it took over, Unix milliseconds."""
    fingerprint: str
    """Of its program."""
    version: str
    """Of Rechannel."""
    keep_versions: int = 1
    """How many committed timesteps stay readable; set by the journal that appends the entry."""
    id: Annotated[str, ABSENT] = ""
    """A random word that no other opening has, of this directory or of a copy; "" in early journals."""
    begins: Annotated[Beginning | None, ABSENT] = None
    """Only in the first entry: what the directory begins with, if it goes on from another one."""


@closed
@dataclass(frozen=True, slots=True, kw_only=True)
class SourceRange:
    """What a timestep reads of one source: [start, end) in the source's own offsets."""

    start: Json
    end: Json
    layout: Json = None
    """How the range is split among tasks; a replay splits it the same way."""
    incarnation: Annotated[str, ABSENT] = ""
    """The incarnation of the source that the offsets belong to; "" in early journals."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Intent:
    """A timestep will run: what it reads, and under which configuration. Every replay uses the same."""

    timestep: int
    sources: Mapping[str, SourceRange]
    """By source name."""
    configuration_version: int
    """Version of the configuration that it runs under."""
    stream_ms: Annotated[int, written("now_ms")]
    """Its time, Unix milliseconds."""
    configuration: Configuration | None = None
    """The whole configuration, only if the journal does not know that version yet."""
    steps: Annotated[tuple[Stepped, ...], ABSENT] = ()
    """Steps of reconfigurations that it begins with."""
    controls: Annotated[tuple[str, ...], ABSENT] = ()
    """Ids of the control operations that travel with it."""

    def __post_init__(self) -> None:
        """Check that version and value agree."""
        given = self.configuration
        if self.timestep < 0 or (given and given.version != self.configuration_version):
            msg = f"intent of timestep {self.timestep}: configuration and its version disagree"
            raise ValueError(msg)

    def digest(self, opening: str) -> str:
        """Return 32 hex digits (XXH3-128) that no other intent shares.

        opening: id of the latest `Opened`. Two copies of a state directory that continue separately journal the same
        timestep under different openings, so their digests differ even if everything else is equal.
        """
        return xxhash.xxh3_128_hexdigest(canonical({"intent": encode(self), "opening": opening}))


@dataclass(frozen=True, slots=True, kw_only=True)
class Committed:
    """A timestep is done; this entry is its commit."""

    timestep: int
    edits: Mapping[str, Edit] = field(default_factory=dict)
    """Changes of the manifests, by operator."""
    times: Annotated[Mapping[str, Times], ABSENT] = field(default_factory=dict)
    """Event time by operator, of those that go by it."""
    offsets: Mapping[str, Json] = field(default_factory=dict)
    """Where each source continues."""
    staged: Mapping[str, Json] = field(default_factory=dict)
    """By sink: the staged result that is to be published."""
    outbox: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """Keys of the files of sink buffers, by operator."""
    controls: Annotated[tuple[Completed, ...], ABSENT] = ()
    """What its control operations have gathered."""
    bad_rows: Annotated[Mapping[str, Counted], ABSENT] = field(default_factory=dict)
    """What operators with a bound on bad rows have counted, by operator."""


@closed
@dataclass(frozen=True, slots=True, kw_only=True)
class Published:
    """A sink is done with a committed timestep: readers see it, or it was dropped."""

    timestep: int
    sink: str
    incarnation: Annotated[str, ABSENT] = ""
    """Of the sink; "" in early journals."""
    dropped: Annotated[str, ABSENT] = ""
    """Why it was dropped; "" if readers see it."""


@closed
@dataclass(frozen=True, slots=True, kw_only=True)
class Withdrawn:
    """Timesteps that are not committed, from one on, are void; their numbers are planned again."""

    from_timestep: int
    reason: str
    """In words."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ConfigurationChanged:
    """From a timestep on, another configuration holds; all plans for later timesteps are void."""

    from_timestep: int
    configuration: Configuration
    cause: str
    """Id of the request that led to it."""
    steps: Annotated[tuple[Stepped, ...], ABSENT] = ()
    """Steps of reconfigurations that it consists of."""
    edits: Annotated[Mapping[str, Edit], ABSENT] = field(default_factory=dict)
    """State that new operators begin with."""
    notes: Annotated[Mapping[str, Json], ABSENT] = field(default_factory=dict)
    """Bodies of notes that hold from the same moment, by kind."""
    renamed: Annotated[Mapping[str, str], ABSENT] = field(default_factory=dict)
    """New names of operators and sources that go on under another name, by their old names."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Reconfiguring:
    """An event of a reconfiguration, except for its steps. It is written as the event itself."""

    event: Event


form(
    Reconfiguring,
    encode=lambda body: encode(body.event, Event),
    decode=lambda data: Reconfiguring(event=decode(Event, data)),
)


@closed
@dataclass(frozen=True, slots=True, kw_only=True)
class Controlling:
    """What controllers did between two timesteps."""

    events: tuple[ControlEvent, ...]


@closed
@dataclass(frozen=True, slots=True, kw_only=True)
class Note:
    """Anything else worth keeping. The state holds the latest body of every kind."""

    kind: str
    """What it is about."""
    body: Json
    """None deletes the kind."""


@closed
@dataclass(frozen=True, slots=True, kw_only=True)
class Notes:
    """Several notes that hold from the same moment."""

    bodies: Mapping[str, Json]
    """By kind; None deletes the kind."""


@closed
@dataclass(frozen=True, slots=True, kw_only=True)
class SourceReset:
    """A source goes on from another offset. No timestep is open."""

    source: str
    before: Json
    """Its offset up to now."""
    after: Json
    time_ms: int
    """Unix milliseconds."""
    cause: str
    """Who asks, and why."""


@closed
@dataclass(frozen=True, slots=True, kw_only=True)
class SavepointMade:
    """The latest committed timestep gets a name; its state stays while it has it."""

    name: str
    timestep: int
    time_ms: int
    """Unix milliseconds."""
    cause: str
    """Who asks, and why."""


@closed
@dataclass(frozen=True, slots=True, kw_only=True)
class SavepointDropped:
    """A savepoint is no longer needed."""

    name: str
    time_ms: int
    """Unix milliseconds."""
    cause: str
    """Who asks, and why."""


@closed
@dataclass(frozen=True, slots=True, kw_only=True)
class StateEdited:
    """The state of an operator, as of the latest committed timestep, was edited by hand."""

    operator: str
    timestep: int
    edit: Edit
    time_ms: int
    """Unix milliseconds."""
    function: str
    """Import path of the function that made the rows."""
    by: str
    """Who ran it: user and host."""
    rows: tuple[int, int, int]
    """How many rows were changed, added and removed."""
    cause: str
    """Why."""


@closed
@dataclass(frozen=True, slots=True, kw_only=True)
class Closed:
    """The driver closed the journal itself."""

    time_ms: int
    """Unix milliseconds."""


Body: TypeAlias = (
    Opened
    | Intent
    | Committed
    | Published
    | Withdrawn
    | ConfigurationChanged
    | Reconfiguring
    | Controlling
    | Note
    | Notes
    | SavepointMade
    | SavepointDropped
    | SourceReset
    | StateEdited
    | Closed
)
"""The body of an entry."""

_KINDS: Mapping[str, type[Body]] = {
    "opened": Opened,
    "intent": Intent,
    "committed": Committed,
    "published": Published,
    "withdrawn": Withdrawn,
    "configuration_changed": ConfigurationChanged,
    "reconfiguring": Reconfiguring,
    "controlling": Controlling,
    "note": Note,
    "notes": Notes,
    "savepoint_made": SavepointMade,
    "savepoint_dropped": SavepointDropped,
    "source_reset": SourceReset,
    "state_edited": StateEdited,
    "closed": Closed,
}
_NAMES: Mapping[type, str] = {kind: name for name, kind in _KINDS.items()}


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """One entry of the journal."""

    number: int
    """1 for the first."""
    epoch: int
    """Of the driver that wrote it."""
    body: Body

    @property
    def kind(self) -> str:
        """Name of the body's kind, as in the file."""
        return _NAMES[type(self.body)]

    def to_bytes(self) -> bytes:
        """Return the sealed file. Raises TypeError or ValueError if a value is not JSON."""
        return seal(
            {
                "format": _format(self.body),
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
        record = unseal(data, name=name, newest=COLUMNS)
        try:
            body = decode(_KINDS[record["kind"]], record["body"])
            return cls(number=record["number"], epoch=record["epoch"], body=body)
        except (KeyError, TypeError, ValueError) as error:
            msg = f"{name} has its right checksum but invalid content ({error!r}); restore it from a copy"
            raise DamagedStateError(msg) from error


def in_columns(body: Body) -> TypeGuard[Committed]:
    """Return whether runs of a commit are columns."""
    return isinstance(body, Committed) and any(
        isinstance(edit.add, RunTable) for edit in body.edits.values()
    )


def _format(body: Body) -> int:
    if isinstance(body, StateEdited):
        return EDITING
    if isinstance(body, SavepointMade | SavepointDropped | SourceReset):
        return SAVING
    if isinstance(body, Opened):
        return LASTING if body.begins is None else SAVING
    if isinstance(body, ConfigurationChanged) and body.renamed:
        return RENAMING
    if in_columns(body):
        return COLUMNS
    controlled = isinstance(body, Controlling) or (
        isinstance(body, Intent | Committed) and bool(body.controls)
    )
    return CONTROLLED if controlled else FORMAT
