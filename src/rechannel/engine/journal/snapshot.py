"""A journal state as one sealed file, so that a restart need not read the journal from entry 1.

Versions share most of their runs. Every run is written once, in `runs`, and versions name runs by
their place there; reading restores the sharing. So it is with the parts of tables of runs.
"""

from __future__ import annotations

from base64 import b64decode, b64encode
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Annotated

from rechannel.control.board import Board
from rechannel.engine.journal.entries import COLUMNS, LASTING, SAVING, Intent, Opened
from rechannel.engine.journal.kept import Savepoint, Version
from rechannel.engine.journal.state import JournalState
from rechannel.errors import DamagedStateError
from rechannel.model.bad_rows import Past
from rechannel.model.codec import ABSENT, Json, decode, encode, written
from rechannel.model.configuration import Configuration
from rechannel.model.eventtime import Times
from rechannel.reconfigure.coordination import Coordination
from rechannel.state.manifest import Manifest
from rechannel.state.run import Run
from rechannel.state.run_columns import Part
from rechannel.state.run_table import RunTable
from rechannel.state.sealed import seal, unseal

FORMAT = LASTING
"""Version of the format of snapshots without savepoints, which earlier releases would forget."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Version:
    """A version of the state, whose runs are places in `_Snapshot.runs`, or its tables places in `_Snapshot.parts`."""

    manifests: Mapping[str, tuple[int, ...]]
    outbox: Mapping[str, tuple[str, ...]]
    stream_ms: Annotated[int, written("now_ms")]
    times: Annotated[Mapping[str, Times], ABSENT] = field(default_factory=dict)
    tables: Annotated[Mapping[str, tuple[int, ...]], ABSENT] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Savepoint:
    """A savepoint; see `kept.Savepoint`."""

    timestep: int
    time_ms: int
    cause: str
    version: _Version
    offsets: Mapping[str, Json]
    configuration: Configuration
    notes: Mapping[str, Json]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Snapshot:
    """A journal state as it is written; mappings from timesteps are lists of pairs."""

    number: int
    epoch: int
    driver: Opened | None
    closed: bool
    last_committed: int | None
    runs: tuple[Run, ...]
    versions: tuple[tuple[int, _Version], ...]
    offsets: Mapping[str, Json]
    open_intents: tuple[Intent, ...]
    attempts: int = 0
    configurations: tuple[tuple[int, Configuration], ...]
    unpublished: tuple[tuple[int, Mapping[str, Json]], ...]
    notes: Mapping[str, Json]
    keep_versions: int
    coordination: Coordination = field(default_factory=Coordination)
    openings: tuple[str, ...] = ()
    opened_at: tuple[int, ...] = ()
    board: Annotated[Board, ABSENT] = field(default_factory=Board)
    bad_rows: Annotated[Mapping[str, tuple[Past, ...]], ABSENT] = field(default_factory=dict)
    digests: tuple[tuple[int, str], ...] | None = None
    """None in early snapshots."""
    savepoints: Annotated[Mapping[str, _Savepoint], ABSENT] = field(default_factory=dict)
    parts: Annotated[tuple[str, ...], ABSENT] = ()
    """Columns of runs, as base64."""


@dataclass(frozen=True)
class _Places:
    """What versions name by its place: runs, and parts of tables."""

    runs: dict[Run, int] = field(default_factory=dict)
    parts: dict[int, tuple[int, Part]] = field(default_factory=dict)
    """By identity."""

    def of(self, table: RunTable) -> tuple[int, ...]:
        """Return the places of the parts of a table; new ones get the next."""
        found = (self.parts.setdefault(id(each), (len(self.parts), each)) for each in table.parts)
        return tuple(place for place, _ in found)


@dataclass(frozen=True)
class _Kept:
    """The same as it is read."""

    runs: tuple[Run, ...]
    parts: tuple[Part, ...]

    @classmethod
    def of(cls, snapshot: _Snapshot) -> _Kept:
        """Read what versions name."""
        parts = tuple(Part.from_bytes(b64decode(text, validate=True)) for text in snapshot.parts)
        return cls(snapshot.runs, parts)


def to_bytes(state: JournalState) -> bytes:
    """Write a state as a sealed file."""
    places = _Places()
    versions = tuple((t, _placed(version, places)) for t, version in state.versions.items())
    savepoints = {name: _saved(one, places) for name, one in state.savepoints.items()}
    snapshot = _Snapshot(
        number=state.number,
        epoch=state.epoch,
        driver=state.driver,
        closed=state.closed,
        last_committed=state.last_committed,
        runs=tuple(places.runs),
        versions=versions,
        offsets=state.offsets,
        open_intents=state.open_intents,
        attempts=state.attempts,
        configurations=state.configurations,
        unpublished=tuple(state.unpublished.items()),
        notes=state.notes,
        keep_versions=state.keep_versions,
        coordination=state.coordination,
        openings=state.openings,
        opened_at=state.opened_at,
        board=state.board,
        bad_rows=state.bad_rows,
        digests=tuple(state.digests.items()),
        savepoints=savepoints,
        parts=tuple(b64encode(part.to_bytes()).decode() for _, part in places.parts.values()),
    )
    number = COLUMNS if places.parts else SAVING if savepoints else FORMAT
    return seal({"format": number, **encode(snapshot)})


def from_bytes(data: bytes | memoryview, *, name: str) -> JournalState:
    """Invert `to_bytes`. name: what to call the file in messages.

    Raises DamagedStateError, NewerFormatError.
    """
    record = unseal(data, name=name, newest=COLUMNS)
    try:
        return _state(decode(_Snapshot, record))
    except (KeyError, TypeError, ValueError, IndexError) as error:
        msg = (
            f"{name} has its right checksum but invalid content ({error!r}); restore it from a copy"
        )
        raise DamagedStateError(msg) from error


def _state(snapshot: _Snapshot) -> JournalState:
    kept = _Kept.of(snapshot)
    return JournalState(
        number=snapshot.number,
        epoch=snapshot.epoch,
        driver=snapshot.driver,
        closed=snapshot.closed,
        last_committed=snapshot.last_committed,
        versions={t: _version(version, kept) for t, version in snapshot.versions},
        offsets=snapshot.offsets,
        open_intents=snapshot.open_intents,
        attempts=snapshot.attempts,
        configurations=snapshot.configurations,
        unpublished=dict(snapshot.unpublished),
        notes=snapshot.notes,
        keep_versions=snapshot.keep_versions,
        coordination=snapshot.coordination,
        digests=dict(_digests(snapshot)),
        openings=snapshot.openings,
        opened_at=snapshot.opened_at,
        board=snapshot.board,
        savepoints={name: _savepoint(one, kept) for name, one in snapshot.savepoints.items()},
        bad_rows=snapshot.bad_rows,
    )


def _digests(snapshot: _Snapshot) -> Iterator[tuple[int, str]]:
    """In early snapshots there are none, and openings have no ids."""
    if snapshot.digests is None:
        return ((intent.timestep, intent.digest("")) for intent in snapshot.open_intents)
    return iter(snapshot.digests)


def _placed(version: Version, places: _Places) -> _Version:
    """Replace runs, and parts of tables, by their places; new ones get the next."""
    tables = {n: m.runs for n, m in version.manifests.items() if isinstance(m.runs, RunTable)}
    return _Version(
        manifests={
            operator: tuple(places.runs.setdefault(run, len(places.runs)) for run in manifest.runs)
            for operator, manifest in version.manifests.items()
            if operator not in tables
        },
        tables={operator: places.of(table) for operator, table in tables.items()},
        outbox=version.outbox,
        stream_ms=version.stream_ms,
        times=version.times,
    )


def _version(version: _Version, kept: _Kept) -> Version:
    values = {
        operator: Manifest(tuple(kept.runs[place] for place in places))
        for operator, places in version.manifests.items()
    }
    tables = {
        operator: Manifest(RunTable(*(kept.parts[place] for place in places)))
        for operator, places in version.tables.items()
    }
    return Version(
        manifests={**values, **tables},
        outbox=version.outbox,
        stream_ms=version.stream_ms,
        times=version.times,
    )


def _saved(savepoint: Savepoint, places: _Places) -> _Savepoint:
    return _Savepoint(
        timestep=savepoint.timestep,
        time_ms=savepoint.time_ms,
        cause=savepoint.cause,
        version=_placed(savepoint.version, places),
        offsets=savepoint.offsets,
        configuration=savepoint.configuration,
        notes=savepoint.notes,
    )


def _savepoint(saved: _Savepoint, kept: _Kept) -> Savepoint:
    return Savepoint(
        timestep=saved.timestep,
        time_ms=saved.time_ms,
        cause=saved.cause,
        version=_version(saved.version, kept),
        offsets=saved.offsets,
        configuration=saved.configuration,
        notes=saved.notes,
    )
