"""Revert a live change by starting the program from before it, even if the change converted state. Pure.

State from before the change is read unchanged, never through the migration, which may be the thing that fails. State
written since is converted back by what was journalled with the change (`schema_versions`). The earlier program runs as
a new version, so that the reverted version stays known and can be returned to.

Timesteps that the reverted version has planned and not committed are withdrawn, because another program cannot run
them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import partial

from rechannel.engine.journal.entries import Body, ConfigurationChanged, Reconfiguring
from rechannel.engine.journal.state import JournalState
from rechannel.engine.program.carrying import Logics, Stored
from rechannel.engine.program.restarting import check_state
from rechannel.engine.program.schema_versions import directed, turned
from rechannel.errors import OtherDataflowError
from rechannel.kernels.protocol.migrate import fingerprint
from rechannel.model.codec import Json
from rechannel.model.configuration import Configuration
from rechannel.reconfigure.events import Finished, Reversed
from rechannel.reconfigure.record import Phase
from rechannel.state.manifest import Edit


@dataclass(frozen=True, kw_only=True)
class Text:
    """What a program text means: identity of its nodes, what its state depends on, logic of its operators."""

    identity: Mapping[str, Json]
    operators: Mapping[str, str]
    lasting: Mapping[str, Mapping[str, Json]]
    state: Mapping[str, Mapping[str, Json]]
    """See `describing.state_of`."""
    sources: Mapping[str, Mapping[str, Json]]
    """See `restarting.sources_of`."""
    logics: Logics

    def fits(self, held: Mapping[str, Json]) -> bool:
        """Return whether it can use the state of a version unchanged."""
        try:
            check_state(self.operators, self.lasting, held)
        except OtherDataflowError:
            return False
        return True


@dataclass(frozen=True, kw_only=True)
class Return:
    """The way back to an earlier version."""

    to: int
    """Number of that version."""
    schema_versions: Mapping[str, str]
    """Schema version of each operator's state, for the record."""
    migrations: Mapping[str, Json]
    """Passages of each operator, for the record."""
    moved: tuple[str, ...]
    """Operators whose state has another schema version then."""
    gone: tuple[str, ...]
    """Operators that were added since and are removed with their state."""

    def sentence(self) -> str:
        """Return a sentence for the log."""
        moved = f"; state of {list(self.moved)} written since is converted back"
        gone = f"; {list(self.gone)} were added since and are removed with their state"
        return (
            f"this program is version {self.to} of the dataflow, and reverts to it"
            f"{moved if self.moved else ''}{gone if self.gone else ''}"
        )


def leading_back(
    text: Text, known: Mapping[str, Mapping[str, Json]], current: int, stored: Stored
) -> Return | None:
    """Return the way back for a text, or None if none is needed because its state is the present one.

    known: versions in the journal. current: the running version. Raises OtherDataflowError with the reason if state
    cannot be converted back.
    """
    held = known.get(str(current), {})
    if not held or held["identity"] == text.identity:
        return None
    to = _version(text, known, current)
    if to is None:
        return None
    goals = {name: known[str(to)]["eras"].get(name) for name in text.logics}
    schema_versions, ways = dict(held.get("eras", {})), dict(held.get("migrations", {}))
    moved = []
    for name, logic in text.logics.items():
        present = schema_versions.get(name)
        columns = fingerprint(logic.key_schema, logic.state_schema)
        goal = goals[name] or columns
        if present is None or present == goal:
            continue
        if not goal.startswith(columns):
            raise OtherDataflowError(_refused(name, to, "its keys or columns are different now"))
        way = turned(directed(ways.get(name, ()), present), goal, partial(stored, name))
        if isinstance(way, str):
            raise OtherDataflowError(_refused(name, to, way))
        schema_versions[name], ways[name] = goal, way
        moved.append(name)
    before: Mapping[str, str] = held.get("operators") or {}
    gone = tuple(sorted(before.keys() - text.operators.keys()))
    if not moved and not gone:
        return None
    check_state(text.operators, text.lasting, _expected(text, held, {*moved, *gone}))
    stay = set(text.logics)
    return Return(
        to=to,
        schema_versions={
            name: schema_version for name, schema_version in schema_versions.items() if name in stay
        },
        migrations={name: way for name, way in ways.items() if name in stay and way},
        moved=tuple(moved),
        gone=gone,
    )


def _version(text: Text, known: Mapping[str, Mapping[str, Json]], current: int) -> int | None:
    """Return the latest earlier version with this text, else the latest that it fits if it does not fit the present."""
    earlier = sorted(v for v in map(int, known) if v < current and "eras" in known[str(v)])[::-1]
    same = [v for v in earlier if known[str(v)]["identity"] == text.identity]
    if not same and not text.fits(known[str(current)]):
        same = [v for v in earlier if "operators" in known[str(v)] and text.fits(known[str(v)])]
    return same[0] if same else None


def _expected(text: Text, held: Mapping[str, Json], settled: set[str]) -> dict[str, Json]:
    """Return what is held, with the text's own entries for operators that are settled."""
    mine = {name: facts for name, facts in text.operators.items() if name in settled}
    others = {n: facts for n, facts in held["operators"].items() if n not in settled}
    lasts = {n: facts for n, facts in (held.get("lasting") or {}).items() if n not in settled}
    return {**held, "operators": {**others, **mine}, "lasting": lasts}


def _refused(name: str, to: int, why: str) -> str:
    return (
        f"operator {name!r}: state written since version {to} of the dataflow cannot be converted back to it: {why}."
        " Continue with the present program: if a function of rc.changes.migrate(using=...) fails, fix it and start"
        " with mended=True. A change requested with rc.changes.migrate(..., back=function) can be reverted"
    )


def begun(
    state: JournalState,
    version: int,
    configuration: Configuration,
    logics: Mapping[str, int],
    notes: Mapping[str, Json],
    *,
    cause: str,
    renamed: Mapping[str, str] | None = None,
    edits: Mapping[str, Edit] | None = None,
) -> ConfigurationChanged:
    """Return the entry with which a version begins at a start; its notes are in the same entry.

    configuration: the present one, with the stages of the program. logics: version of each operator's logic. renamed:
    new names of operators and sources, by old names. edits: state of operators that are new.
    """
    operators = {
        name: replace(operator, logic=logics.get(name, operator.logic))
        for name, operator in configuration.operators.items()
    }
    return ConfigurationChanged(
        from_timestep=(state.last_intended or 0) + 1,
        configuration=replace(
            configuration,
            version=configuration.version + 1,
            dataflow=version,
            operators=operators,
        ),
        cause=cause,
        notes=dict(notes),
        renamed=dict(renamed or {}),
        edits=dict(edits or {}),
    )


def undone(
    state: JournalState, record: Mapping[str, Json], version: int, wall_ms: int
) -> list[Body]:
    """Return the entries that mark changes of the program as reverted; none if the journal has them already.

    record: what the journal keeps of the running version. version: its number.
    """
    to = record.get("back_to")
    if to is None:
        return []
    reason = f"led back to version {to} of the dataflow, by start(revert=True)"
    made: list[Body] = []
    for each in state.coordination.records:
        made_by_it = each.change.program_version
        begun = each.phase is Phase.DONE or each.under_way
        if not begun or made_by_it is None or not to < made_by_it < version:
            continue
        if each.phase is Phase.MOVING:
            reverse = Reversed(id=each.id, time_ms=wall_ms, steps=(), reason=reason)
            made.append(Reconfiguring(event=reverse))
        end = Finished(id=each.id, time_ms=wall_ms, outcome="undone", reason=reason)
        made.append(Reconfiguring(event=end))
    return made
