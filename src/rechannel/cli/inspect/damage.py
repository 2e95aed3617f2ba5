"""Reads everything that a state directory needs, to find damaged and missing files.

A running job may write and delete files at the same time. So a file counts as damaged only if the
journal, read again, still names it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import partial
from sys import maxsize

from rechannel.cli.inspect.directory import StateDirectory
from rechannel.engine.journal.entries import Entry
from rechannel.engine.journal.lease import read_lease, recorded_head
from rechannel.engine.journal.reading import read_only
from rechannel.engine.journal.referenced import needed, unreferenced, versions_of
from rechannel.engine.journal.snapshot import from_bytes
from rechannel.engine.journal.state import JournalState
from rechannel.engine.reconfigure.history import check_record
from rechannel.engine.repair.checking import Check, Checked, Reader, one_by_one
from rechannel.engine.repair.evidence import Evidence
from rechannel.engine.repair.findings import lost_end
from rechannel.engine.stages.sink_buffers import sink_buffer_tables
from rechannel.errors import DamagedStateError
from rechannel.state.keys import (
    JOURNAL,
    RECONFIGURATIONS,
    SEGMENTS,
    SINK_BUFFERS,
    SNAPSHOTS,
    SOURCES,
    number_of,
    timestep_of,
)
from rechannel.state.sealed import unseal
from rechannel.state.segments.segment import verify_segment
from rechannel.state.store import Store

Tell = Callable[[str, int, int], None]
"""Called with the progress: kind of files, number of files read, number of all files."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Damage:
    """A file that is damaged or missing."""

    file: str
    """Its key in the state directory."""

    problem: str
    """What is wrong with it."""


@dataclass(slots=True, kw_only=True)
class Findings:
    """What was read, and what is wrong with it.

    files, bytes: read, by kind. unreferenced: segments and sink buffers that are no longer named
    and that the next housekeeping removes. complete: whether the journal could be read, which names
    the files that are needed; if not, all segments and sink buffers were read instead.
    """

    files: dict[str, int] = field(default_factory=dict)
    bytes: dict[str, int] = field(default_factory=dict)
    damages: list[Damage] = field(default_factory=list)
    unreferenced: int = 0
    complete: bool = True

    def read(self, kind: str, size: int) -> None:
        """Count a file that was read."""
        self.files[kind] = self.files.get(kind, 0) + 1
        self.bytes[kind] = self.bytes.get(kind, 0) + size


def verify_everything(
    directory: StateDirectory, tell: Tell, reader: Reader = one_by_one
) -> Findings:
    """Read every file that is needed. reader: of segments and sink buffers.

    Raises NewerFormatError for formats of later versions.
    """
    store = directory.store
    findings = Findings()
    lease, head = read_lease(store), recorded_head(store)
    _read_all(store, "journal", _numbered(store, JOURNAL), _check_entry, findings, tell)
    _read_all(store, "snapshots", _numbered(store, SNAPSHOTS), _check_snapshot, findings, tell)
    _read_all(store, "sources", store.list(SOURCES), _check_record, findings, tell)
    _read_all(store, "reconfigurations", store.list(RECONFIGURATIONS), check_record, findings, tell)
    state = _state(store, findings)
    present = [*store.list(SEGMENTS), *store.list(SINK_BUFFERS)]
    latest = max((t for key in present if (t := timestep_of(key)) is not None), default=None)
    seen = Evidence(state=state, head=head, lease=lease, held=lease is not None, latest=latest)
    for finding in lost_end(seen):
        problem = f"{finding.what}. {finding.consequence} (see `rechannel repair`)"
        findings.damages.append(Damage(file=JOURNAL, problem=problem))
    if state is None:
        named = set(present)
    else:
        named = needed(state)
        findings.unreferenced = len(set(unreferenced(state, present)) - named)
    for kind, prefix, check in (
        ("segments", SEGMENTS, partial(_check_segment, _digests(state))),
        ("outbox", SINK_BUFFERS, _check_sink_buffer),
    ):
        keys = iter(sorted(key for key in named if key.startswith(prefix)))
        _read_all(store, kind, keys, check, findings, tell, reader)
    return findings


def _read_all(  # noqa: PLR0917 - what is read, how, and where to say so
    store: Store,
    kind: str,
    keys: Iterator[str],
    check: Check,
    findings: Findings,
    tell: Tell,
    reader: Reader = one_by_one,
) -> None:
    wanted = list(keys)
    damages = list[Damage]()
    for done, found in enumerate(reader(store, wanted, check)):
        tell(kind, done, len(wanted))
        if found.problem is None:
            findings.read(kind, found.size)
        elif _is_needed(store, found):
            damages.append(Damage(file=found.key, problem=found.problem))
    findings.damages += sorted(damages, key=lambda damage: damage.file)


def _numbered(store: Store, prefix: str) -> Iterator[str]:
    """Keys of entries or snapshots, without other files."""
    return (key for key in store.list(prefix) if number_of(key) is not None)


def _is_needed(store: Store, found: Checked) -> bool:
    """Whether damage counts: a running job may have deleted the file in the meantime."""
    if not found.key.startswith((SEGMENTS, SINK_BUFFERS)):
        return not found.missing
    try:
        return found.key in needed(read_only(store))
    except DamagedStateError:
        return True


def _state(store: Store, findings: Findings) -> JournalState | None:
    """The state of the journal; None if it cannot be read."""
    try:
        return read_only(store)
    except DamagedStateError as error:
        findings.complete = False
        problem = str(error)
        # A damaged entry was reported above; a missing one, or a contradiction, is found only here.
        if not any(damage.file in problem for damage in findings.damages):
            findings.damages.append(Damage(file=JOURNAL, problem=problem))
        return None


def _check_entry(store: Store, key: str) -> None:
    entry = Entry.from_bytes(store.read(key), name=f"journal entry {key}")
    _check_number(key, entry.number)


def _check_snapshot(store: Store, key: str) -> None:
    state = from_bytes(store.read(key), name=f"snapshot {key}")
    _check_number(key, state.number)


def _check_number(key: str, number: int) -> None:
    if number != number_of(key):
        msg = f"{key} holds number {number}: it was written under another name"
        raise DamagedStateError(msg)


def _check_record(store: Store, key: str) -> None:
    if key.endswith(".json"):
        unseal(store.read(key), name=key, newest=maxsize)


def _digests(state: JournalState | None) -> dict[str, str | None]:
    """What the journal says about the content of segments, by key."""
    versions = () if state is None else versions_of(state)
    manifests = (manifest for version in versions for manifest in version.manifests.values())
    return {run.segment: run.digest for manifest in manifests for run in manifest.runs}


def _check_segment(digests: Mapping[str, str | None], store: Store, key: str) -> None:
    verify_segment(store, key, digests.get(key))


def _check_sink_buffer(store: Store, key: str) -> None:
    for batch in sink_buffer_tables(store, [key]):
        try:
            batch.validate(full=True)
        except ValueError as error:
            msg = f"{key} holds no valid Arrow data ({error}); restore it from a copy"
            raise DamagedStateError(msg) from error
