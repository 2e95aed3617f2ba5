"""Upgrade: a program text takes over at a start from another one, whose state it carries over. Pure.

The text before is gone. What its state is, the journal says (`describing`), so the rules are those of a live change:
the same migrations, the same ways back. Nothing is dropped that the program, or the start, does not name:

    operator or source     renamed={"old": "new"}, or without=["old"] to drop its state or its offsets
    column of state        migrate={"operator": rc.changes.migrate(drop=["column"])}

The upgrade begins with one entry of the journal, as a return does (`leading_back`): before it, the directory is that of
the text before; after it, that of the new text, and a start with the new text goes on.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from rechannel.dataflow.evolution.declared import DECLARED, Declared, Held, conversions
from rechannel.dataflow.evolution.description import Description
from rechannel.dataflow.evolution.migration import Migrate
from rechannel.engine.journal.entries import Body, Reconfiguring
from rechannel.engine.journal.state import JournalState
from rechannel.engine.program.carrying import Carried, Stored, carried_state, next_schema_versions
from rechannel.engine.program.declared import renames, with_names
from rechannel.engine.program.describing import STATE
from rechannel.engine.program.leading_back import Text
from rechannel.engine.program.refusals import Refusals
from rechannel.engine.program.upgrade_checks import check_swapped, check_upgrade
from rechannel.errors import OtherDataflowError, RechannelError
from rechannel.model.codec import Json
from rechannel.reconfigure.events import Finished

AT_START = "at_start"
"""Member of a version's record: true if it began at a start, as an upgrade or a return, and not while the job ran."""


@dataclass(frozen=True, kw_only=True)
class Upgrade:
    """What an upgrade does."""

    base: int
    """The version before."""
    renamed: Mapping[str, str]
    """New names of operators and sources that go on under another name, by their old names."""
    added: tuple[str, ...]
    """Operators that are new."""
    gone: tuple[str, ...]
    """Operators whose state is dropped."""
    converted: Mapping[str, Carried]
    """What happens to state that has other columns, by operator."""
    changed: tuple[str, ...]
    """Operators with other logic."""
    record: Mapping[str, Json]
    """Members of the new version's record that follow from the upgrade."""

    cause = "an upgrade of the program"

    def sentence(self) -> str:
        """Return a sentence for the log."""
        parts = [
            f"{list(self.added)} are new" if self.added else "",
            f"{dict(self.renamed)} have new names" if self.renamed else "",
            f"state of {sorted(self.converted)} is converted" if self.converted else "",
            f"{list(self.gone)} are gone with their state" if self.gone else "",
        ]
        told = "; ".join(filter(None, parts))
        return (
            f"this program takes over from version {self.base} of the dataflow{told and ': '}{told}"
        )


def upgraded(
    text: Text,
    known: Mapping[str, Held],
    base: int,
    declared: Declared,
    stored: Stored,
    state: JournalState,
) -> Upgrade | None:
    """Return what an upgrade to a text does; None if the text is the running one and all it declares has been done.

    known: versions in the journal; `base` is the running one. stored: see `Stored`, by present names. Raises
    OtherDataflowError with the line that is missing.
    """
    renamed = renames(declared, known[str(base)], text)
    held = with_names(known[str(base)], renamed)
    migrate = declared.undone(held)
    if _is_running(text, held) and not renamed and not migrate:
        return None
    if held.get("operators") and STATE not in held:
        msg = (
            "this state directory does not say what its state is, because an earlier release wrote it: start the"
            " program that it belongs to once, unchanged, and upgrade then"
        )
        raise OtherDataflowError(msg)
    check_upgrade(held, text, declared, renamed)
    _check_units(text, known, base, held, declared)
    _check_since(text, held, declared)
    before, after = held.get(STATE, {}), text.state
    old = {name: Description.from_json(one) for name, one in before.items() if name in after}
    made, refusals = dict[str, Carried](), Refusals()
    for name, description in sorted(old.items()):
        with refusals.noted():
            one = _carried(name, description, text, migrate, declared, state.stream_ms)
            if one is not None:
                made[name] = one
    refusals.check()
    changed = sorted(n for n in old if n in made or _digest(held, n) != _digest_of(text, n))
    gone = sorted(before.keys() - after.keys())
    logics = {
        name: held["logics"].get(name, 1) + (name in changed)
        for name in {*held["logics"], *after}
        if name not in gone
    }
    names = {new: name for name, new in renamed.items()}
    ways = next_schema_versions(
        held, old, text.logics, logics, made, lambda name: stored(names.get(name, name))
    )
    return Upgrade(
        base=base,
        renamed=renamed,
        added=tuple(sorted(after.keys() - before.keys())),
        gone=tuple(gone),
        converted=made,
        changed=tuple(changed),
        record={
            "text": Upgrade.cause,
            "logics": logics,
            **ways,
            **declared.member(held, after.keys(), made.keys()),
            AT_START: True,
        },
    )


def unchanged_live(identity: Mapping[str, Json], known: Mapping[str, Held], current: int) -> bool:
    """Return whether nothing has changed while the job ran since a text was the running one."""
    same = [v for v in map(int, known) if v < current and known[str(v)]["identity"] == identity]
    later = [v for v in map(int, known) if same and max(same) < v <= current]
    return bool(later) and all(known[str(v)].get(AT_START) for v in later)


def began(state: JournalState, version: int) -> int:
    """Return the first timestep of a version, of those that the journal knows."""
    return next((t for t, held in state.configurations if held.dataflow == version), 0)


def ended(state: JournalState, upgrade: Upgrade, wall_ms: int) -> list[Body]:
    """Return the entries that end open changes of operators which are gone or have another name."""
    touched = {*upgrade.gone, *upgrade.renamed}
    reason = "the program was upgraded, and the operator is gone or has another name"
    return [
        Reconfiguring(
            event=Finished(id=record.id, time_ms=wall_ms, outcome="failed", reason=reason)
        )
        for record in state.coordination.open
        if touched & record.change.about()
    ]


def _is_running(text: Text, held: Held) -> bool:
    """Return whether a text is the running one. Types of sources are in no identity: state shows them."""
    same = held["identity"] == text.identity and held.get("operators") == text.operators
    return same and (
        STATE not in held or (held[STATE], held["lasting"]) == (text.state, text.lasting)
    )


def _check_units(
    text: Text, known: Mapping[str, Held], base: int, held: Held, declared: Declared
) -> None:
    """Raise OtherDataflowError for an earlier text if a function has converted state since, unseen in the columns."""
    if not any(known[v]["identity"] == text.identity for v in known if int(v) < base):
        return
    done: Mapping[str, Mapping[str, Json]] = held.get(DECLARED) or {}
    for name in sorted(done.keys() & text.state.keys() - declared.migrate.keys()):
        used = any(one["using"] for one in conversions(done[name]))
        if used and held[STATE].get(name) == text.state[name]:
            msg = (
                f"operator {name!r}: a function has converted its state since this program ran, which its columns do"
                " not show. Go back with start(revert=True), or say what converts it back:"
                f" rc.Job(..., migrate={{{name!r}: rc.changes.migrate(using=function)}})"
            )
            raise OtherDataflowError(msg)


def _check_since(text: Text, held: Held, declared: Declared) -> None:
    """Raise OtherDataflowError where a live change has converted state by a function since a declared migration has.

    Whether the other logic of the text goes with the state before or after that change, no column shows.
    """
    done: Mapping[str, Mapping[str, Json]] = held.get(DECLARED) or {}
    told = declared.told
    for name in sorted(done.keys() & told.keys() & text.state.keys()):
        one = done[name]
        doubtful = "live" in one and one["using"] and one["live"]["using"]
        if not doubtful or told[name]["digest"] == one["live"]["digest"]:
            continue
        if told[name]["digest"] == one["digest"] and _digest(held, name) != _digest_of(text, name):
            msg = (
                f"operator {name!r}: the migration that the program declares for it has been carried out, and a live"
                " change has converted the state by another function since. If the program goes with the present"
                " state, leave the migration out; else declare one by a function that converts that state"
            )
            raise OtherDataflowError(msg)


def _carried(
    name: str,
    old: Description,
    text: Text,
    migrate: Mapping[str, Migrate],
    declared: Declared,
    stream_ms: int,
) -> Carried | None:
    """Return what happens to the state of an operator that stays. Raises OtherDataflowError."""
    check_swapped(name, old, Description.of(text.logics[name]), migrate.get(name))
    try:
        return carried_state(old, text.logics[name], migrate.get(name), stream_ms)
    except RechannelError as error:
        done = (
            ". The migration that the program declares for it has been carried out by an upgrade before"
            if name in declared.migrate and name not in migrate
            else ""
        )
        line = (
            "" if name in migrate else f" (in the program: rc.Job(..., migrate={{{name!r}: ...}}))"
        )
        msg = f"operator {name!r}: {error}{line}{done}"
        raise OtherDataflowError(msg) from error


def _digest(held: Held, name: str) -> str:
    found: str = held["identity"][name]["digest"]
    return found


def _digest_of(text: Text, name: str) -> str:
    found: str = text.identity[name]["digest"]
    return found
