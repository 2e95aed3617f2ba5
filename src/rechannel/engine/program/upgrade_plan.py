"""What an upgrade would do, part by part of the program. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Protocol

from rechannel.dataflow.graph.nodes import Dataflow, MapBatches, Sink, Source, Stateful, Transform
from rechannel.engine.journal.incarnations import NOTE as INCARNATIONS
from rechannel.engine.journal.incarnations import SINKS, members_of
from rechannel.engine.journal.state import JournalState
from rechannel.engine.program import early
from rechannel.engine.program.declared import with_names
from rechannel.engine.program.upgrading import Upgrade
from rechannel.engine.program.versions import Program, current_record
from rechannel.kernels.protocol.migrate import Answer, Carry, Compute, Migration
from rechannel.model.codec import Json
from rechannel.model.text import in_bytes
from rechannel.reconfigure.upgrade_plan import (
    CHANGED,
    CONVERTED,
    GONE,
    NEW,
    RENAMED,
    STAYS,
    Part,
    UpgradePlan,
)
from rechannel.state.manifest import Manifest


class Tried(Protocol):
    """How many stored rows were converted on trial, of how many."""

    @property
    def rows(self) -> int:
        """How many were."""

    @property
    def of(self) -> int:
        """How many there are."""


def upgrade_plan(
    program: Program, state: JournalState, current: int, *, tried: Tried | None = None
) -> UpgradePlan:
    """Return what the start of a program would do. current: the running version."""
    if program.upgrade is None:
        known = bool(current_record(state))
        why = "this program is the running one" if known else "no program has run here yet"
        return UpgradePlan(base=current, version=current, parts=(), notes=(f"{why}.",))
    return UpgradePlan(
        base=current,
        version=program.version,
        parts=tuple(_parts(program, program.upgrade, state)),
        notes=tuple(_notes(program.upgrade, state, tried)),
    )


def _parts(program: Program, upgrade: Upgrade, state: JournalState) -> Iterator[Part]:
    held = with_names(current_record(state), upgrade.renamed)
    before: Mapping[str, Mapping[str, Json]] = held["identity"]
    old_names = {new: old for old, new in upgrade.renamed.items()}
    # The previous text is known by its nodes, and names that are gone do not come back.
    revertible = before != program.record["identity"] and not upgrade.renamed
    for node in program.dataflow.nodes:
        name = str(node.name)
        if isinstance(node, Source):
            yield _source(name, node, held, old_names, state)
        elif isinstance(node, Stateful):
            if name in upgrade.added:
                begins = "without state" if node.initial is None else "with its preload"
                yield Part(kind="operator", name=name, becomes=NEW, detail=f"begins {begins}")
            else:
                yield _operator(name, upgrade, old_names, state, revertible=revertible)
        elif isinstance(node, MapBatches | Transform):
            yield _function(name, before, program.record["identity"])
    yield from _sinks(program.dataflow, state)
    for name in sorted((held.get("sources") or {}).keys() - program.dataflow.by_name.keys()):
        yield Part(kind="source", name=name, becomes=GONE, detail="its offsets are forgotten")
    for name in upgrade.gone:
        detail = f"{_size(state.manifests.get(name))} of state is dropped"
        yield Part(kind="operator", name=name, becomes=GONE, detail=detail)


def _source(
    name: str,
    node: Source,
    held: Mapping[str, Json],
    old_names: Mapping[str, str],
    state: JournalState,
) -> Part:
    known: Mapping[str, Mapping[str, Json]] = held.get("sources") or {}
    if name not in known and not node.connector.rereadable:
        return Part(kind="source", name=name, becomes=NEW, detail="is read from its beginning")
    old = old_names.get(name, name)
    goes_on = "goes on from its offset" if old in state.offsets else "has not been read yet"
    if name in old_names:
        return Part(kind="source", name=name, becomes=RENAMED, detail=f"was {old!r}; {goes_on}")
    if node.connector.rereadable:
        return Part(kind="source", name=name, becomes=STAYS)
    was, place = known[name]["place"], node.connector.describe()
    if was != place:
        detail = f"was {was}, is {place}; {goes_on}"
        return Part(kind="source", name=name, becomes=CHANGED, detail=detail)
    return Part(kind="source", name=name, becomes=STAYS, detail=goes_on)


def _operator(
    name: str,
    upgrade: Upgrade,
    old_names: Mapping[str, str],
    state: JournalState,
    *,
    revertible: bool,
) -> Part:
    old = old_names.get(name, name)
    parts = [f"was {old!r}"] if old != name else []
    becomes = RENAMED if parts else STAYS
    if name in upgrade.converted:
        becomes = CONVERTED
        parts += _columns(upgrade.converted[name].forth)
        back = revertible and upgrade.converted[name].back is not None
        parts.append("can be reverted" if back else "cannot be reverted")
    elif name in upgrade.changed:
        becomes = RENAMED if parts else CHANGED
        parts.append("other logic, the same columns")
    parts.append(f"{_size(state.manifests.get(old))} of state")
    return Part(kind="operator", name=name, becomes=becomes, detail="; ".join(parts))


def _columns(migration: Migration) -> Iterator[str]:
    """What becomes of each column that changes, in words."""
    old, used = migration.from_schema.names, set()
    for field, step in zip(migration.to_schema, migration.steps, strict=True):
        if isinstance(step, Carry):
            used.add(step.column)
            was = migration.from_schema.field(step.column)
            if was.name != field.name:
                yield f"{was.name} becomes {field.name}"
            if was.type != field.type:
                yield f"{field.name} becomes {field.type}"
        elif isinstance(step, Compute):
            used |= {old.index(name) for name in step.columns if name in old}
            yield f"{field.name} is computed: {step.sql}"
        elif isinstance(step, Answer):
            used |= set(range(len(old)))
            yield f"{field.name} is made by your function"
        else:
            (value,) = step.value.to_pylist()
            yield f"{field.name} begins {'empty' if value is None else f'as {value!r}'}"
    for place, name in enumerate(old):
        if place not in used:
            yield f"{name} is dropped"


def _function(
    name: str, before: Mapping[str, Mapping[str, Json]], after: Mapping[str, Mapping[str, Json]]
) -> Part:
    if name not in before:
        return Part(kind="function", name=name, becomes=NEW)
    same = before[name]["digest"] == after[name]["digest"]
    return Part(kind="function", name=name, becomes=STAYS if same else CHANGED)


def _sinks(dataflow: Dataflow, state: JournalState) -> Iterator[Part]:
    known = (state.notes.get(INCARNATIONS) or {}).get(SINKS, {})
    mine = members_of(dataflow)[SINKS]
    for node in dataflow.nodes:
        if not isinstance(node, Sink):
            continue
        name = str(node.name)
        if name not in known:
            yield Part(kind="sink", name=name, becomes=NEW, detail="gets rows from now on")
        elif known[name].get("place") != mine[name].get("place"):
            detail = f"from {known[name].get('place')} to {mine[name].get('place')}"
            yield Part(kind="sink", name=name, becomes=CHANGED, detail=detail)
        else:
            yield Part(kind="sink", name=name, becomes=STAYS)
    for name in sorted(known.keys() - mine.keys()):
        yield Part(kind="sink", name=name, becomes=GONE, detail="what it has written stays")


def _notes(upgrade: Upgrade, state: JournalState, tried: Tried | None) -> Iterator[str]:
    if tried is not None and tried.rows < tried.of:
        yield f"Converted on trial, without an error: about {tried.rows:,} of {tried.of:,} stored rows."
    elif tried is not None:
        yield f"Converted on trial, without an error: all {tried.of:,} stored rows."
    numbers = [intent.timestep for intent in state.open_intents]
    if numbers:
        which = (
            f"timestep {numbers[0]}"
            if len(numbers) == 1
            else f"timesteps {numbers[0]} to {numbers[-1]}"
        )
        yield f"Planned and not committed: {which}; planned anew by the new program."
    if shown := early.warning(state):
        yield f"{shown[0].upper()}{shown[1:]}."
    stuck = {n: c.why_not for n, c in upgrade.converted.items() if c.back is None}
    for name, why in sorted(stuck.items()):
        yield f"Operator {name!r} cannot be reverted: {why}."


def _size(manifest: Manifest | None) -> str:
    runs = {} if manifest is None else {run.segment: run for run in manifest.state}
    rows, size = sum(run.rows for run in runs.values()), sum(run.size for run in runs.values())
    return f"up to {rows:,} rows, {in_bytes(size)}"
