"""Upgrade: a program text takes over at a start from another one, whose state it carries over. Pure.

The text before is gone. What its state is, the journal says (`describing`), so the rules are those of a live change:
the same migrations, the same ways back. Nothing is dropped that the program, or the start, does not name:

    operator or source     renamed={"old": "new"}, or without=["old"] to drop its state or its offsets
    column of state        migrate={"operator": rc.changes.migrate(drop=["column"])}

The upgrade begins with one entry of the journal, as a return does (`leading_back`): before it, the directory is that of
the text before; after it, that of the new text, and a start with the new text goes on.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from rechannel.dataflow.evolution.description import Description
from rechannel.dataflow.evolution.migration import Migrate
from rechannel.dataflow.identity.digests import digest_of
from rechannel.engine.journal.entries import Body, Reconfiguring
from rechannel.engine.journal.state import JournalState
from rechannel.engine.program.carrying import Carried, Stored, carried_state, next_schema_versions
from rechannel.engine.program.describing import STATE
from rechannel.engine.program.leading_back import Text
from rechannel.engine.program.restarting import windows_differ
from rechannel.errors import OtherDataflowError, RechannelError
from rechannel.model.codec import Json
from rechannel.model.configuration import Configuration
from rechannel.operators.checks import suggest
from rechannel.operators.spec import INSTEAD
from rechannel.reconfigure.events import Finished

DECLARED = "declared"
"""Member of a version's record: digest of each migration that the program declares, by operator."""

AT_START = "at_start"
"""Member of a version's record: true if it began at a start, as an upgrade or a return, and not while the job ran."""

_BY_NAME = ("identity", "operators", "lasting", "sources", STATE, "logics", "eras", "migrations")
"""Members of a version's record that are mappings by the names of nodes."""

Held = Mapping[str, Json]
"""What the journal keeps of the running version."""


@dataclass(frozen=True, kw_only=True)
class Declared:
    """What a program declares about the state of the program before it, and what its start permits."""

    renamed: Mapping[str, str] = field(default_factory=dict)
    """New names of operators and sources, by their old names."""
    migrate: Mapping[str, Migrate] = field(default_factory=dict)
    """What becomes of state whose columns change, by operator (its new name)."""
    without: Collection[str] = ()
    """Operators whose state is dropped, sources whose offsets are."""

    @property
    def digests(self) -> dict[str, str]:
        """Return the digest of every migration, by operator."""
        return {name: digest_of(one).text for name, one in sorted(self.migrate.items())}

    @property
    def member(self) -> dict[str, Json]:
        """Return the member of the record of a version for which they have been carried out; empty without any."""
        return {DECLARED: self.digests} if self.migrate else {}


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
    held: Held,
    base: int,
    declared: Declared,
    stored: Stored,
    state: JournalState,
) -> Upgrade | None:
    """Return what an upgrade to a text does; None if the text is the running one and all it declares has been done.

    held: of the running version, whose number is `base`. stored: see `Stored`, by present names. Raises
    OtherDataflowError with the line that is missing.
    """
    renamed = renames(declared, held, text)
    _check_declared(declared, text)
    migrate = {
        name: one
        for name, one in declared.migrate.items()
        if (held.get(DECLARED) or {}).get(name) != declared.digests[name]
    }
    if held["identity"] == text.identity and not renamed and not migrate:
        return None
    if held.get("operators") and STATE not in held:
        msg = (
            "this state directory does not say what its state is, because an earlier release wrote it: start the"
            " program that it belongs to once, unchanged, and upgrade then"
        )
        raise OtherDataflowError(msg)
    held = with_names(held, renamed)
    before, after = held.get(STATE, {}), text.state
    gone = sorted(before.keys() - after.keys())
    added = sorted(after.keys() - before.keys())
    _check_gone(gone, added, held, text, declared)
    _check_sources(held, text, declared)
    old = {name: Description.from_json(one) for name, one in before.items() if name in after}
    made = {}
    for name, description in sorted(old.items()):
        _check_same(name, held, text)
        one = _carried(name, description, text, migrate, declared, state.stream_ms)
        if one is not None:
            made[name] = one
    _check_owed({*made, *gone, *renamed}, state)
    changed = sorted(n for n in old if n in made or _digest(held, n) != _digest_of(text, n))
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
        added=tuple(added),
        gone=tuple(gone),
        converted=made,
        changed=tuple(changed),
        record={
            "text": Upgrade.cause,
            "logics": logics,
            **ways,
            **declared.member,
            AT_START: True,
        },
    )


def renames(declared: Declared, held: Held, text: Text) -> dict[str, str]:
    """Return the declared renames that have not been made. Raises OtherDataflowError for those that cannot be."""
    known = {**held.get(STATE, {}), **held.get("sources", {})}
    mine = {**text.state, **text.sources}
    made = {}
    for old, new in declared.renamed.items():
        if old not in known and new in known:
            continue  # by an upgrade before
        if new not in mine:
            msg = (
                f"renamed={{{old!r}: {new!r}}}: the program has no operator or source"
                f" {new!r}{suggest(new, list(mine))}"
            )
            raise OtherDataflowError(msg)
        if old in mine:
            msg = f"renamed={{{old!r}: {new!r}}}: the program still has {old!r}; give one of them another name"
            raise OtherDataflowError(msg)
        if old not in known:
            msg = (
                f"renamed={{{old!r}: {new!r}}}: this state directory has no operator or source"
                f" {old!r}{suggest(old, list(known))}"
            )
            raise OtherDataflowError(msg)
        if new in known:
            msg = (
                f"renamed={{{old!r}: {new!r}}}: this state directory has {new!r} already, with state or offsets of its"
                " own; leave the entry out, or choose another name"
            )
            raise OtherDataflowError(msg)
        if (old in held.get(STATE, {})) != (new in text.state):
            msg = f"renamed={{{old!r}: {new!r}}}: one is an operator, the other a source"
            raise OtherDataflowError(msg)
        made[old] = new
    if len(set(made.values())) < len(made):
        msg = f"renamed={made}: two of them get one name"
        raise OtherDataflowError(msg)
    return made


def with_names(
    held: Held, renamed: Mapping[str, str], *, members: Collection[str] = _BY_NAME
) -> dict[str, Json]:
    """Return a version's record under new names. members: those in which they count."""
    return {
        member: {renamed.get(name, name): one for name, one in value.items()}
        if member in members and value
        else value
        for member, value in held.items()
    }


def renamed_operators(configuration: Configuration, renamed: Mapping[str, str]) -> Configuration:
    """Return a Configuration with new names of operators and sources."""
    if not renamed:
        return configuration
    operators = {renamed.get(name, name): one for name, one in configuration.operators.items()}
    return replace(configuration, operators=operators)


def unchanged_live(identity: Mapping[str, Json], known: Mapping[str, Held], current: int) -> bool:
    """Return whether nothing has changed while the job ran since a text was the running one."""
    same = [v for v in map(int, known) if v < current and known[str(v)]["identity"] == identity]
    later = [v for v in map(int, known) if same and max(same) < v <= current]
    return bool(later) and all(known[str(v)].get(AT_START) for v in later)


def check_declared(declared: Declared, held: Held) -> None:
    """Raise OtherDataflowError if a program that starts without an upgrade declares what has not been done."""
    done = held.get(DECLARED) or {}
    left = sorted(name for name, digest in declared.digests.items() if done.get(name) != digest)
    if held and left:
        msg = (
            f"the program declares a migration of {left}, which has not been carried out: `rechannel upgrade FILE`"
            " shows what it would do, and start(upgrade=True) does it"
        )
        raise OtherDataflowError(msg)


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


def _check_declared(declared: Declared, text: Text) -> None:
    for name in declared.migrate:
        if name not in text.state:
            known = suggest(name, list(text.state))
            msg = (
                f"migrate={{{name!r}: ...}}: the program has no operator {name!r} with state{known}"
            )
            raise OtherDataflowError(msg)


def _check_gone(
    gone: Sequence[str], added: Sequence[str], held: Held, text: Text, declared: Declared
) -> None:
    for name in gone:
        if name in declared.without:
            continue
        facts = held["identity"].get(name, {})
        alike = [n for n in added if _alike(facts, text.identity[n])]
        renamed = f"renamed={{{name!r}: {(alike or ['NEW_NAME'])[0]!r}}}"
        msg = (
            f"operator {name!r} is gone, and its state would be dropped: if it has another name now, write"
            f" rc.Job(..., {renamed}); to drop it, start with without=[{name!r}]"
        )
        raise OtherDataflowError(msg)


def _check_owed(touched: set[str], state: JournalState) -> None:
    """Raise OtherDataflowError if a DataFrame function that is gone has still to make rows for a sink.

    touched: operators whose rows have other columns, or another name, from now on.
    """
    for timestep, staged in sorted(state.unpublished.items()):
        for sink, what in staged.items():
            if what.get("derived") and touched & (what.get("outbox") or {}).keys():
                msg = (
                    f"sink {sink!r} still has to write timestep {timestep}, whose rows a DataFrame function makes of"
                    f" {sorted(what['outbox'])}: start the program of then once, which writes them, and upgrade then"
                )
                raise OtherDataflowError(msg)


def _alike(one: Mapping[str, Json], other: Mapping[str, Json]) -> bool:
    return all(one.get(part) == other.get(part) for part in ("kind", "keys"))


def _check_sources(held: Held, text: Text, declared: Declared) -> None:
    before: Mapping[str, Mapping[str, Json]] = held.get("sources") or {}
    new = sorted(text.sources.keys() - before.keys())
    for name in sorted(before.keys() - text.sources.keys() - set(declared.without)):
        alike = [n for n in new if text.sources[n]["kind"] == before[name]["kind"]]
        renamed = f"renamed={{{name!r}: {(alike or ['NEW_NAME'])[0]!r}}}"
        msg = (
            f"source {name!r} is gone, and its offsets would be forgotten: if it has another name now, write"
            f" rc.Job(..., {renamed}); to give it up, start with without=[{name!r}]"
        )
        raise OtherDataflowError(msg)


def _check_same(name: str, held: Held, text: Text) -> None:
    """Raise OtherDataflowError if an operator is another one than before: no migration helps then."""
    was, will = held["identity"][name], text.identity[name]
    if was["kind"] != will["kind"]:
        msg = f"operator {name!r}: {was['kind']} cannot become {will['kind']}; {INSTEAD}"
        raise OtherDataflowError(msg)
    if was.get("keys") != will.get("keys"):
        msg = (
            f"operator {name!r}: its keys cannot change from {', '.join(was['keys'])} to {', '.join(will['keys'])}:"
            f" state lies where the hash of its key says; {INSTEAD}"
        )
        raise OtherDataflowError(msg)
    reason = windows_differ((held.get("lasting") or {}).get(name, {}), text.lasting[name])
    if reason is not None:
        msg = f"operator {name!r}: {reason}; {INSTEAD}"
        raise OtherDataflowError(msg)
    before, after = held[STATE][name], text.state[name]
    if before["irreplaceable"] != after["irreplaceable"]:
        msg = (
            f"operator {name!r}: what is stored was combined with the previous function, which another cannot"
            f" continue; {INSTEAD}"
        )
        raise OtherDataflowError(msg)
    missed = sorted(({*after["tables"]} & held[STATE].keys()) - {*before["tables"]})
    if missed:
        msg = (
            f"lookup {name!r} would not have what {missed[0]!r} has emitted up to now: look up in a DataFrame of what a"
            " sink of it has written, lookup(lambda: ..., refresh='1 minute'), or begin another job with this lookup"
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
    _check_swapped(name, old, Description.of(text.logics[name]), migrate.get(name))
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


def _check_swapped(name: str, old: Description, new: Description, migrate: Migrate | None) -> None:
    """Raise OtherDataflowError if an aggregate may just have another name, and the program does not say."""
    if old.aggregates is None or new.aggregates is None:
        return
    said: Migrate = migrate or Migrate()
    if said.using is not None:
        return
    before, after = {a.name for a in old.aggregates}, {a.name for a in new.aggregates}
    told: set[Any] = {*said.drop, *said.rename, *said.rename.values(), *said.add}
    gone = [a.name for a in old.aggregates if a.name not in after and not told & a.names]
    came = [a.name for a in new.aggregates if a.name not in before and not told & a.names]
    if gone and came:
        msg = (
            f"operator {name!r}: its aggregate {gone[0]!r} is gone and {came[0]!r} is new. Write rc.Job(...,"
            f" migrate={{{name!r}: rc.changes.migrate(rename={{{gone[0]!r}: {came[0]!r}}})}}) if it is the same under"
            f" another name, or rc.changes.migrate(drop=[{gone[0]!r}]) if it is not"
        )
        raise OtherDataflowError(msg)


def _digest(held: Held, name: str) -> str:
    found: str = held["identity"][name]["digest"]
    return found


def _digest_of(text: Text, name: str) -> str:
    found: str = text.identity[name]["digest"]
    return found
