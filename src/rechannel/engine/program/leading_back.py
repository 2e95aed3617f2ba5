"""A start with the program of before a live change leads back, also where the change converted state. Pure.

What was written before the change is read as it is, and never by the migration that may be failing. What was written
since is converted back, by what was journalled with the change (`engine.eras`). The program of before runs as another
version, so that the version that is given up stays known, and could be led back to in turn.

Timesteps that the version given up has planned and not committed are withdrawn: another program cannot keep that
promise.
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
from rechannel.reconfigure.changes.program import ChangeProgram
from rechannel.reconfigure.changes.together import parts_of
from rechannel.reconfigure.events import Finished, Reversed
from rechannel.reconfigure.record import Phase


@dataclass(frozen=True, kw_only=True)
class Text:
    """What a program text means: identity of its nodes, what its state depends on, and the logic of its operators."""

    identity: Mapping[str, Json]
    operators: Mapping[str, str]
    lasting: Mapping[str, Mapping[str, Json]]
    logics: Logics

    def fits(self, held: Mapping[str, Json]) -> bool:
        """Whether it understands the state of a version as it is."""
        try:
            check_state(self.operators, self.lasting, held)
        except OtherDataflowError:
            return False
        return True


@dataclass(frozen=True, kw_only=True)
class Return:
    """The way back to an earlier version.

    to: its number. eras, migrations: members of the record. moved: operators whose state is of another era since.
    gone: operators that came since and go with their state.
    """

    to: int
    schema_versions: Mapping[str, str]
    migrations: Mapping[str, Json]
    moved: tuple[str, ...]
    gone: tuple[str, ...]

    def told(self) -> str:
        """The sentence for the log."""
        moved = f"; state of {list(self.moved)} that was written since is converted back"
        gone = f"; {list(self.gone)} came since and go with their state"
        return (
            f"this program is version {self.to} of the dataflow, and leads back to it"
            f"{moved if self.moved else ''}{gone if self.gone else ''}"
        )


def leading_back(
    text: Text, known: Mapping[str, Mapping[str, Json]], current: int, stored: Stored
) -> Return | None:
    """The way back for a text, or None where none is needed: its state is kept as it is now.

    known: versions, as the journal keeps them. current: the one that runs. Raises OtherDataflowError with the reason
    where state cannot be led back.
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
            raise OtherDataflowError(_refused(name, to, "its keys or columns are others now"))
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
    """The latest earlier version that a text is of; or, where it does not fit the present one, that it fits."""
    earlier = sorted(v for v in map(int, known) if v < current and "eras" in known[str(v)])[::-1]
    same = [v for v in earlier if known[str(v)]["identity"] == text.identity]
    if not same and not text.fits(known[str(current)]):
        same = [v for v in earlier if "operators" in known[str(v)] and text.fits(known[str(v)])]
    return same[0] if same else None


def _expected(text: Text, held: Mapping[str, Json], settled: set[str]) -> dict[str, Json]:
    """What is held, but for operators that are settled: these are as the text says."""
    mine = {name: told for name, told in text.operators.items() if name in settled}
    others = {n: told for n, told in held["operators"].items() if n not in settled}
    lasts = {n: told for n, told in (held.get("lasting") or {}).items() if n not in settled}
    return {**held, "operators": {**others, **mine}, "lasting": lasts}


def _refused(name: str, to: int, why: str) -> str:
    return (
        f"operator {name!r}: state that was written since version {to} of the dataflow cannot be led back to it: {why}."
        " Go on with the program as it is now: if a function of rc.changes.migrate(using=...) fails, mend it and start"
        " with mended=True. A change that is asked for with rc.changes.migrate(..., back=function) can be led back"
    )


def led_back(
    state: JournalState,
    version: int,
    configuration: Configuration,
    logics: Mapping[str, int],
    notes: Mapping[str, Json],
) -> ConfigurationChanged:
    """The border at which a version begins that leads back; its notes are in the same entry.

    configuration: that of the border before, with the stages of the program. logics: version of every operator's logic.
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
        cause=f"led back by version {version} of the dataflow",
        notes=dict(notes),
    )


def undone(
    state: JournalState, record: Mapping[str, Json], version: int, now_ms: int
) -> list[Body]:
    """What says of changes of the program that they were led back; nothing where the journal says so already.

    record: what the journal keeps of the version that runs. version: its number.
    """
    to = record.get("back_to")
    if to is None:
        return []
    reason = f"led back to version {to} of the dataflow, by start(revert=True)"
    made: list[Body] = []
    for each in state.coordination.records:
        versions = [p.version for p in parts_of(each.change) if isinstance(p, ChangeProgram)]
        begun = each.phase is Phase.DONE or each.under_way
        if not begun or not any(to < one < version for one in versions):
            continue
        if each.phase is Phase.MOVING:
            reverse = Reversed(id=each.id, time_ms=now_ms, steps=(), reason=reason)
            made.append(Reconfiguring(event=reverse))
        end = Finished(id=each.id, time_ms=now_ms, outcome="undone", reason=reason)
        made.append(Reconfiguring(event=end))
    return made
