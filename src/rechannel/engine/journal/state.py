"""What the journal says so far, as a value: the fold of its entries. Pure.

The rules, which `apply` enforces before an entry may be written:

- The first entry is `Opened`, and every `Opened` begins the next epoch. All other entries belong to
  the epoch of the latest one: a driver that lost its place cannot add to the story of another.
- Timesteps are intended in order without gaps, and committed in that order. Intended and not yet
  committed ones are *open*: after a crash they run again, with the same sources and configuration.
- Open timesteps can be withdrawn, from one on: then their numbers are intended anew, with other sources. What was
  decided of the configuration and of reconfigurations in them holds from the first of these numbers on.
- A configuration holds from its timestep on; it can change only for timesteps not yet intended.
- What a commit stages for sinks stays until it is reported as published.

The latest `keep_versions` committed timesteps are kept as versions; they share their runs.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace as changed
from types import MappingProxyType
from typing import Any, TypeVar

from msgspec import Struct, field
from msgspec.structs import force_setattr, replace

from rechannel.control.board import Board
from rechannel.engine.journal import acts
from rechannel.engine.journal.entries import (
    Beginning,
    Body,
    Closed,
    Committed,
    ConfigurationChanged,
    Controlling,
    Entry,
    Intent,
    Note,
    Notes,
    Opened,
    Published,
    Reconfiguring,
    SavepointDropped,
    SavepointMade,
    SourceReset,
    StateEdited,
    Withdrawn,
)
from rechannel.engine.journal.incarnations import NOTE as INCARNATIONS
from rechannel.engine.journal.incarnations import inherited, renamed_note, withdrawn
from rechannel.engine.journal.kept import Savepoint, Version, frozen
from rechannel.errors import NotReadyError
from rechannel.model.bad_rows import Pasts, advanced
from rechannel.model.bytimestep import ByTimestep
from rechannel.model.codec import Json
from rechannel.model.configuration import Configuration
from rechannel.model.eventtime import Times
from rechannel.reconfigure.coordination import Coordination
from rechannel.reconfigure.events import Stepped
from rechannel.state.keys import timestep_of
from rechannel.state.manifest import Edit, Manifest

WITHDRAWN = "withdrawn"
"""Kind of the note that holds the latest timestep that was withdrawn last: files of it may lie there for a while."""

_OPENINGS = 256
"""Ids of drivers that are remembered, to tell output of this directory from that of a copy."""

MOST_SAVEPOINTS = 16
"""Savepoints at a time: every snapshot of the journal has all of them."""

_MOST_SHOWN = 300
"""Characters of an offset in the history."""

V = TypeVar("V")


class JournalState(Struct, frozen=True, kw_only=True):
    """Everything needed to continue after entry `number`."""

    number: int = 0
    """Number of the latest entry; 0 if there is none."""
    epoch: int = 0
    """Epoch of the latest driver."""
    driver: Opened | None = None
    """The latest driver."""
    closed: bool = False
    """Whether that driver closed the journal itself."""
    last_committed: int | None = None
    """Latest committed timestep."""
    versions: Mapping[int, Version] = field(default_factory=dict)
    """By timestep."""
    offsets: Mapping[str, Json] = field(default_factory=dict)
    """Where each source continues."""
    open_intents: tuple[Intent, ...] = ()
    """Intended timesteps that are not committed, in order."""
    attempts: int = 0
    """How many drivers have run the oldest of these, the present one included."""
    configurations: tuple[tuple[int, Configuration], ...] = ()
    """(timestep, the configuration that holds from it on), ascending."""
    unpublished: Mapping[int, Mapping[str, Json]] = field(default_factory=dict)
    """Staged results by timestep and sink."""
    notes: Mapping[str, Json] = field(default_factory=dict)
    """Latest body by kind."""
    keep_versions: int = 1
    """How many versions stay."""
    coordination: Coordination = field(default_factory=Coordination)
    """The reconfigurations."""
    board: Board = field(default_factory=Board)
    """The controllers."""
    digests: Mapping[int, str] = field(default_factory=dict)
    """Digests of intents (`Intent.digest`) of timesteps that are open, unpublished or kept as versions."""
    bad_rows: Pasts = field(default_factory=dict)
    """What operators with a bound on bad rows counted in the latest committed timesteps."""
    openings: tuple[str, ...] = ()
    """Ids of the latest drivers; the last one is that of `epoch`."""
    savepoints: Mapping[str, Savepoint] = field(default_factory=dict)
    """By name."""
    opened_at: tuple[int, ...] = ()
    """Numbers of all openings, ascending: their entries stay (see `log`). Early journals do not have them all."""

    def __post_init__(self) -> None:
        """Freeze the mappings, drop versions beyond the bound and configurations before them."""
        if self.keep_versions < 1:
            msg = f"keep_versions must be at least 1, not {self.keep_versions}"
            raise ValueError(msg)
        force_setattr(self, "unpublished", ByTimestep.of(self.unpublished))
        for name in ("offsets", "notes", "savepoints"):
            force_setattr(self, name, frozen(getattr(self, name)))
        dropped = self._bound_versions()
        digests = self.digests
        if not isinstance(digests, ByTimestep):
            known = {
                *self.versions,
                *self.unpublished,
                *(one.timestep for one in self.open_intents),
            }
            digests = ByTimestep({t: text for t, text in digests.items() if t in known})
        force_setattr(self, "digests", self._without_digests(digests, dropped))

    def _bound_versions(self) -> set[int]:
        """Drop versions beyond the bound, and configurations before them; return the timesteps dropped."""
        if isinstance(self.versions, MappingProxyType) and len(self.versions) <= self.keep_versions:
            return set()  # as the state before has left them
        kept = sorted(self.versions)[-self.keep_versions :]
        dropped = self.versions.keys() - kept
        versions = {timestep: self.versions[timestep] for timestep in kept}
        force_setattr(self, "versions", frozen(versions))
        if kept:
            force_setattr(self, "configurations", _since(self.configurations, kept[0]))
        return dropped

    def _without_digests(
        self, digests: ByTimestep[str], timesteps: Iterable[int]
    ) -> ByTimestep[str]:
        """Return the digests after timesteps ended or their versions went; those of unpublished timesteps stay."""
        for timestep in timesteps:
            if timestep not in self.unpublished:
                digests = digests.without(timestep)
        return digests

    @property
    def next_number(self) -> int:
        """Number of the next entry."""
        return self.number + 1

    @property
    def manifests(self) -> Mapping[str, Manifest]:
        """Live state by operator, as of the latest commit."""
        return self.latest.manifests

    @property
    def times(self) -> Mapping[str, Times]:
        """Event time by operator, as of the latest commit."""
        return self.latest.times

    @property
    def stream_ms(self) -> int:
        """Time of the latest committed timestep, Unix milliseconds; 0 before the first."""
        return self.latest.stream_ms

    @property
    def last_intended(self) -> int | None:
        """Latest timestep that was intended or committed."""
        return self.open_intents[-1].timestep if self.open_intents else self.last_committed

    @property
    def latest(self) -> Version:
        """The latest committed version; an empty one before the first."""
        return Version() if self.last_committed is None else self.versions[self.last_committed]

    def digest(self, timestep: int) -> str:
        """Return the digest of the intent of a timestep that is open, unpublished or kept; "" if unknown."""
        return self.digests.get(timestep, "")

    @property
    def drivers(self) -> Mapping[int, str]:
        """Ids of the latest drivers, by epoch."""
        first = self.epoch - len(self.openings) + 1
        return {epoch: id for epoch, id in enumerate(self.openings, first) if id}  # noqa: A001

    def configuration_at(self, timestep: int) -> Configuration:
        """Return the configuration of a timestep. Raises NotReadyError if the journal has none for it."""
        for since, configuration in reversed(self.configurations):
            if since <= timestep:
                return configuration
        msg = f"the journal holds no configuration for timestep {timestep}"
        raise NotReadyError(msg)

    def apply(self, entry: Entry) -> JournalState:
        """Return the state after one more entry. Raises ValueError if the rules do not allow it."""
        opening = isinstance(entry.body, Opened)
        if entry.number != self.next_number:
            msg = f"entry {entry.number} does not follow entry {self.number}"
            raise ValueError(msg)
        if entry.epoch != self.epoch + opening or not entry.epoch:
            msg = f"entry {entry.number} is of epoch {entry.epoch}, the journal in {self.epoch}"
            raise ValueError(msg)
        if self.closed and not opening:
            msg = f"entry {entry.number} comes after the driver of epoch {self.epoch} had closed"
            raise ValueError(msg)
        after = _FOLDS[type(entry.body)](self, entry.body)
        return replace(after, number=entry.number, epoch=entry.epoch)


def needed(state: JournalState) -> set[str]:
    """Return the segments and sink buffer files that a kept version, a savepoint or unpublished output needs."""
    kept = set[str]().union(*(version.files() for version in versions_of(state)))
    staged = (what for sinks in state.unpublished.values() for what in sinks.values())
    sink_buffers = (what.get("outbox") or {} for what in staged if isinstance(what, Mapping))
    return kept.union(key for nodes in sink_buffers for keys in nodes.values() for key in keys)


def savepoint_of(state: JournalState, time_ms: int, cause: str) -> Savepoint:
    """Return the latest committed timestep, of which there is one, as a savepoint."""
    timestep = state.last_committed or 0
    return Savepoint(
        timestep=timestep,
        time_ms=time_ms,
        cause=cause,
        version=replace(state.latest, outbox={}),
        offsets=state.offsets,
        configuration=state.configuration_at(timestep + 1),
        notes={kind: note for kind, note in state.notes.items() if kind != acts.NOTE},
    )


def unreferenced(state: JournalState, keys: Iterable[str]) -> list[str]:
    """Return the keys of segments and sink buffers that no kept version names, and no open timestep can name.

    Files of timesteps after the latest commit may belong to running attempts: they stay.
    """
    if state.last_committed is None:
        return []
    named = set[str]().union(*(version.files() for version in versions_of(state)))
    return [
        key
        for key in keys
        if key not in named
        and (timestep := timestep_of(key)) is not None
        and timestep <= state.last_committed
    ]


def versions_of(state: JournalState) -> Iterator[Version]:
    """Yield all versions that are kept, also by savepoints."""
    yield from state.versions.values()
    yield from (savepoint.version for savepoint in state.savepoints.values())


def _opened(state: JournalState, body: Opened) -> JournalState:
    attempts = state.attempts + 1 if state.open_intents else 0
    # Early journals have no ids: openings are remembered from the first one with an id on.
    openings = (*state.openings, body.id)[-_OPENINGS:] if body.id or state.openings else ()
    if body.begins is not None:
        state = _begun(state, body, body.begins)
    return replace(
        state,
        driver=body,
        closed=False,
        keep_versions=body.keep_versions,
        attempts=attempts,
        openings=openings,
        opened_at=(*state.opened_at, state.next_number),
    )


def _begun(state: JournalState, opened: Opened, begins: Beginning) -> JournalState:
    """Begin at a savepoint of another state directory."""
    if state.number:
        msg = f"entry {state.next_number} begins at a savepoint, but it is not the first"
        raise ValueError(msg)
    version = Version(
        manifests={name: Manifest().apply(edit) for name, edit in begins.edits.items()},
        stream_ms=begins.stream_ms,
        times=begins.times,
    )
    at = f"savepoint {begins.savepoint!r} of " if begins.savepoint else ""
    notes = acts.with_act(
        begins.notes,
        "fork",
        time_ms=opened.time_ms,
        timestep=begins.timestep,
        what=f"forked from {at}{begins.origin}",
    )
    return replace(
        state,
        last_committed=begins.timestep,
        versions={begins.timestep: version},
        offsets=begins.offsets,
        configurations=((begins.timestep, begins.configuration),),
        notes=notes,
    )


def _saved(state: JournalState, body: SavepointMade) -> JournalState:
    if body.timestep != state.last_committed:
        msg = f"savepoint {body.name!r} of timestep {body.timestep}: the latest is {state.last_committed}"
        raise ValueError(msg)
    if body.name in state.savepoints or len(state.savepoints) >= MOST_SAVEPOINTS:
        msg = f"savepoint {body.name!r}: there is one, or there are {MOST_SAVEPOINTS} others"
        raise ValueError(msg)
    made = savepoint_of(state, body.time_ms, body.cause)
    what = f"savepoint {body.name!r}"
    return replace(
        state,
        savepoints={**state.savepoints, body.name: made},
        notes=_acted(state, "savepoint", body.time_ms, what, body.cause),
    )


def _unsaved(state: JournalState, body: SavepointDropped) -> JournalState:
    if body.name not in state.savepoints:
        msg = f"there is no savepoint {body.name!r}"
        raise ValueError(msg)
    left = {name: kept for name, kept in state.savepoints.items() if name != body.name}
    what = f"savepoint {body.name!r} is dropped"
    notes = _acted(state, "savepoint dropped", body.time_ms, what, body.cause)
    return replace(state, savepoints=left, notes=notes)


def _reset(state: JournalState, body: SourceReset) -> JournalState:
    if state.open_intents or state.offsets.get(body.source) != body.before:
        msg = f"source {body.source!r} cannot be reset: a timestep is open, or it is not at {body.before}"
        raise ValueError(msg)
    what = f"source {body.source!r} from {_line(body.before)} to {_line(body.after)}"
    notes = _acted(state, "reset", body.time_ms, what, body.cause)
    return replace(state, offsets={**state.offsets, body.source: body.after}, notes=notes)


def _edited(state: JournalState, body: StateEdited) -> JournalState:
    if body.timestep != state.last_committed:
        msg = f"state of {body.operator!r} at timestep {body.timestep} is edited; the latest is {state.last_committed}"
        raise ValueError(msg)
    latest = state.latest
    manifest = latest.manifests.get(body.operator, Manifest()).apply(body.edit)
    version = replace(latest, manifests={**latest.manifests, body.operator: manifest})
    notes = _acted(state, acts.EDITED, body.time_ms, acts.edit_in(body), body.cause)
    return replace(state, versions={**state.versions, body.timestep: version}, notes=notes)


def _line(offset: Json) -> str:
    text = str(offset)
    return text if len(text) <= _MOST_SHOWN else f"{text[:_MOST_SHOWN]}..."


def _acted(
    state: JournalState, kind: str, time_ms: int, what: str, cause: str = ""
) -> dict[str, Json]:
    timestep = state.last_committed
    return acts.with_act(
        state.notes, kind, time_ms=time_ms, timestep=timestep, what=what, cause=cause
    )


def _closed(state: JournalState, _: Closed) -> JournalState:
    # A driver that closes the journal itself has not failed at its open timesteps.
    return replace(state, closed=True, attempts=max(0, state.attempts - 1))


def _intent(state: JournalState, body: Intent) -> JournalState:
    last = state.last_intended
    if last is not None and body.timestep != last + 1:
        msg = f"timestep {body.timestep} is intended, but the next one is {last + 1}"
        raise ValueError(msg)
    if body.configuration is not None:
        held = {**dict(state.configurations), body.timestep: body.configuration}
        state = replace(state, configurations=tuple(sorted(held.items(), key=_timestep)))
    holds = {since: c.version for since, c in state.configurations if since <= body.timestep}
    if not holds or holds[max(holds)] != body.configuration_version:
        msg = (
            f"timestep {body.timestep} is intended under configuration"
            f" {body.configuration_version}, which is not the one that holds from then on"
        )
        raise ValueError(msg)
    state = _step(state, body.steps)
    if body.controls:
        state = replace(state, board=state.board.intended(body.controls, body.timestep))
    attempts = state.attempts if state.open_intents else 1
    digest = body.digest(state.driver.id if state.driver else "")
    return replace(
        state,
        open_intents=(*state.open_intents, body),
        attempts=attempts,
        digests=ByTimestep.of(state.digests).put(body.timestep, digest),
    )


def _withdrawn(state: JournalState, body: Withdrawn) -> JournalState:
    since = body.from_timestep
    if all(intent.timestep != since for intent in state.open_intents):
        waiting = [intent.timestep for intent in state.open_intents]
        msg = f"timestep {since} cannot be withdrawn: it is not open; open timesteps: {waiting}"
        raise ValueError(msg)
    kept = tuple(intent for intent in state.open_intents if intent.timestep < since)
    before = tuple((t, c) for t, c in state.configurations if t < since)
    latest = state.configurations[-1]
    holds = (*before, latest if latest[0] < since else (since, latest[1]))
    nothing = state.last_committed is None and not kept and not state.coordination.serial
    if nothing and latest[1].dataflow == 1:
        holds = ()  # nothing has happened at all: the stream begins as the next driver's settings say
    digests = ByTimestep.of(state.digests)
    for intent in state.open_intents[len(kept) :]:
        digests = digests.without(intent.timestep)
    return replace(
        state,
        open_intents=kept,
        digests=digests,
        attempts=state.attempts if kept else 0,
        configurations=tuple(dict(holds).items()),
        coordination=state.coordination.withdrawn(since),
        board=state.board.withdrawn(since),
        notes={**withdrawn(state.notes, since), WITHDRAWN: {"last": state.last_intended}},
    )


def _committed(state: JournalState, body: Committed) -> JournalState:
    if not state.open_intents or state.open_intents[0].timestep != body.timestep:
        waiting = [intent.timestep for intent in state.open_intents]
        msg = f"timestep {body.timestep} cannot be committed: open, in this order, are {waiting}"
        raise ValueError(msg)
    manifests = dict(state.manifests)
    for operator, edit in body.edits.items():
        manifests[operator] = manifests.get(operator, Manifest()).apply(edit)
    stream_ms = state.open_intents[0].stream_ms
    times = {**state.times, **body.times}
    version = Version(manifests=manifests, outbox=body.outbox, stream_ms=stream_ms, times=times)
    if body.controls:
        state = replace(state, board=state.board.committed(body.controls))
    unpublished = ByTimestep.of(state.unpublished)
    if body.staged:
        unpublished = unpublished.put(body.timestep, frozen(body.staged))
    return replace(
        state,
        last_committed=body.timestep,
        open_intents=state.open_intents[1:],
        attempts=int(len(state.open_intents) > 1),
        versions={**state.versions, body.timestep: version},
        offsets={**state.offsets, **body.offsets},
        unpublished=unpublished,
        bad_rows=advanced(state.bad_rows, body.timestep, body.bad_rows),
    )


def _published(state: JournalState, body: Published) -> JournalState:
    left = dict(state.unpublished.get(body.timestep, {}))
    if body.sink not in left:
        msg = f"sink {body.sink!r} has nothing to publish of timestep {body.timestep}"
        raise ValueError(msg)
    del left[body.sink]
    unpublished, digests = ByTimestep.of(state.unpublished), ByTimestep.of(state.digests)
    if left:
        return replace(state, unpublished=unpublished.put(body.timestep, frozen(left)))
    if body.timestep not in state.versions:
        digests = digests.without(body.timestep)
    return replace(state, unpublished=unpublished.without(body.timestep), digests=digests)


def _changed(state: JournalState, body: ConfigurationChanged) -> JournalState:
    last = state.last_intended
    if last is not None and body.from_timestep <= last:
        msg = f"a configuration cannot change from timestep {body.from_timestep}: {last} is fixed"
        raise ValueError(msg)
    before = [(since, c) for since, c in state.configurations if since < body.from_timestep]
    state = _with_names(state, body.renamed)
    state = _with_loaded(_without_gone(state, body), body.edits)
    state = _step(state, body.steps)
    state = _all_noted(state, Notes(bodies=body.notes))
    if (turn := acts.turn_in(body)) is not None:
        time_ms = state.driver.time_ms if state.driver else 0
        state = replace(state, notes=_acted(state, turn.kind, time_ms, turn.what, body.cause))
    return replace(state, configurations=(*before, (body.from_timestep, body.configuration)))


def _with_names(state: JournalState, names: Mapping[str, str]) -> JournalState:
    """Give operators and sources new names. names: by old names."""
    if not names:
        return state

    def new(mapping: Mapping[str, V]) -> dict[str, V]:
        return {names.get(name, name): value for name, value in mapping.items()}

    def mark(name: str) -> str:
        """Nodes without a name of their own are called after what they read: `in.event_time-1`."""
        first, dot, rest = name.partition(".")
        return names.get(name) or f"{names.get(first, first)}{dot}{rest}"

    def renamed(version: Version) -> Version:
        times = {
            name: changed(one, marks={mark(node): seen for node, seen in one.marks.items()})
            for name, one in new(version.times).items()
        }
        return replace(version, manifests=new(version.manifests), times=times)

    versions = {timestep: renamed(version) for timestep, version in state.versions.items()}
    note = renamed_note(state.notes.get(INCARNATIONS), names)
    notes = state.notes if note is None else {**state.notes, INCARNATIONS: note}
    return replace(
        state,
        versions=versions,
        offsets=new(state.offsets),
        notes=notes,
        bad_rows={mark(name): pasts for name, pasts in state.bad_rows.items()},
    )


def _without_gone(state: JournalState, body: ConfigurationChanged) -> JournalState:
    """Drop the state, and the counts of bad rows, of operators that another version of the dataflow does not have."""
    known, configuration = state.configurations, body.configuration
    if state.last_committed is None or not known or known[-1][1].dataflow == configuration.dataflow:
        return state
    latest = state.versions[state.last_committed]
    kept = {n: m for n, m in latest.manifests.items() if n in configuration.operators}
    times = {n: t for n, t in latest.times.items() if n in configuration.operators}
    kept_version = replace(latest, manifests=kept, times=times)
    versions = {**state.versions, state.last_committed: kept_version}
    program = {**state.notes, **body.notes}.get(acts.PROGRAM) or {}
    nodes = program.get(str(configuration.dataflow), {}).get("identity", state.bad_rows)
    bad_rows = {name: pasts for name, pasts in state.bad_rows.items() if name in nodes}
    return replace(state, versions=versions, bad_rows=bad_rows)


def _with_loaded(state: JournalState, edits: Mapping[str, Edit]) -> JournalState:
    """Give operators that are new the state that was loaded for them; before the first commit, as timestep 0."""
    if not edits:
        return state
    manifests = {n: Manifest().apply(edit) for n, edit in edits.items()}
    latest = replace(state.latest, manifests={**state.manifests, **manifests})
    timestep = state.last_committed or 0
    return replace(state, last_committed=timestep, versions={**state.versions, timestep: latest})


def _reconfiguring(state: JournalState, body: Reconfiguring) -> JournalState:
    if isinstance(body.event, Stepped):
        msg = f"a step of {body.event.id} without a configuration"
        raise ValueError(msg)
    return replace(
        state,
        coordination=state.coordination.after(body.event),
        board=state.board.changed(body.event),
    )


def _controlling(state: JournalState, body: Controlling) -> JournalState:
    board = state.board
    for event in body.events:
        board = board.after(event)
    return replace(state, board=board)


def _step(state: JournalState, steps: tuple[Stepped, ...]) -> JournalState:
    for step in steps:
        state = replace(state, coordination=state.coordination.after(step))
    return state


def _noted(state: JournalState, body: Note) -> JournalState:
    others = {kind: value for kind, value in state.notes.items() if kind != body.kind}
    notes = others if body.body is None else {**others, body.kind: body.body}
    offsets = inherited(state.offsets, state.notes, notes)
    return replace(state, notes=notes, offsets=offsets)


def _all_noted(state: JournalState, body: Notes) -> JournalState:
    for kind, note in body.bodies.items():
        state = _noted(state, Note(kind=kind, body=note))
    return state


_FOLDS: Mapping[type[Body], Callable[[JournalState, Any], JournalState]] = {
    Opened: _opened,
    Intent: _intent,
    Committed: _committed,
    Published: _published,
    Withdrawn: _withdrawn,
    ConfigurationChanged: _changed,
    Reconfiguring: _reconfiguring,
    Controlling: _controlling,
    Note: _noted,
    Notes: _all_noted,
    SavepointMade: _saved,
    SavepointDropped: _unsaved,
    SourceReset: _reset,
    StateEdited: _edited,
    Closed: _closed,
}


def _since(
    configurations: tuple[tuple[int, Configuration], ...], timestep: int
) -> tuple[tuple[int, Configuration], ...]:
    """Drop what no longer holds at a timestep or later."""
    first = sum(1 for since, _ in configurations[1:] if since <= timestep)
    return configurations[first:]


def _timestep(held: tuple[int, Configuration]) -> int:
    return held[0]
