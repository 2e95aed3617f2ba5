"""What an upgrade refuses, each with the line to add: what would be lost, and what cannot go on. Pure.

held: what the journal keeps of the running version, under the new names. text: the program that takes over.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any, NoReturn

from rechannel.dataflow.evolution.declared import Declared, Held
from rechannel.dataflow.evolution.description import Description
from rechannel.dataflow.evolution.migration import Migrate
from rechannel.engine.journal.state import JournalState
from rechannel.engine.program.declared import belongs
from rechannel.engine.program.describing import STATE
from rechannel.engine.program.leading_back import Text
from rechannel.engine.program.refusals import Refusals
from rechannel.engine.program.restarting import other_memory
from rechannel.errors import OtherDataflowError
from rechannel.model.codec import Json
from rechannel.operators.checks import suggest
from rechannel.operators.spec import INSTEAD


def check_upgrade(held: Held, text: Text, declared: Declared, renamed: Mapping[str, str]) -> None:
    """Raise OtherDataflowError for what no migration can carry over, and for what would be lost unnamed."""
    for name in declared.migrate:
        if name not in text.state:
            known = suggest(name, list(text.state))
            msg = (
                f"migrate={{{name!r}: ...}}: the program has no operator {name!r} with state{known}"
            )
            raise OtherDataflowError(msg)
    _check_roles(held, text)
    refusals = Refusals()
    for name in _gone_operators(held, text, declared):
        with refusals.noted():
            _refuse_gone_operator(name, held, text, declared)
    for name in _gone_sources(held, text, declared):
        with refusals.noted():
            _refuse_gone_source(name, held, text, declared)
    with refusals.noted():
        _check_tables(held, text, renamed)
    for name in sorted(held.get(STATE, {}).keys() & text.state.keys()):
        with refusals.noted():
            _check_same(name, held, text)
    refusals.check()


def check_owed(state: JournalState, sinks: Collection[str]) -> None:
    """Raise OtherDataflowError if a DataFrame function that is gone has still to make rows for a sink that stays."""
    for timestep, staged in sorted(state.unpublished.items()):
        for sink, what in staged.items():
            if what.get("derived") and sink in sinks:
                msg = (
                    f"sink {sink!r} still has to write timestep {timestep}, whose rows a DataFrame function of the"
                    " program before makes: start that program once, which writes them, and upgrade then"
                )
                raise OtherDataflowError(msg)


def check_swapped(name: str, old: Description, new: Description, migrate: Migrate | None) -> None:
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


def _check_roles(held: Held, text: Text) -> None:
    """What is kept under a name belongs to a source, an operator or a sink, and to no other."""
    for name, facts in text.identity.items():
        before = held["identity"].get(name)
        if before is not None and _role(before) != _role(facts):
            msg = f"{name!r} was a {_role(before)} and would be a {_role(facts)}: give it another name"
            raise OtherDataflowError(msg)


def _role(facts: Mapping[str, Json]) -> str:
    if "keys" in facts:
        return "keyed operator"
    return "function" if facts["kind"] in {"map", "transform"} else str(facts["kind"])


def _gone_operators(held: Held, text: Text, declared: Declared) -> list[str]:
    """Return the operators that are gone, and not said to be; what was made for one of them goes with it."""
    gone = held.get(STATE, {}).keys() - text.state.keys()
    said = {*declared.without, *gone}
    return sorted(
        name
        for name in gone - set(declared.without)
        if not any(belongs(name, other) for other in said)
    )


def _refuse_gone_operator(name: str, held: Held, text: Text, declared: Declared) -> NoReturn:
    before, after = held[STATE], text.state
    facts = held["identity"].get(name, {})
    alike = [n for n in sorted(after.keys() - before.keys()) if _alike(facts, text.identity[n])]
    msg = (
        f"operator {name!r} is gone, and its state would be dropped: if it has another name now, write"
        f" rc.Job(..., {_entry(name, alike, declared)}); to drop it, start with without=[{name!r}]"
    )
    raise OtherDataflowError(msg)


def _gone_sources(held: Held, text: Text, declared: Declared) -> list[str]:
    before: Mapping[str, Mapping[str, Json]] = held.get("sources") or {}
    return sorted(before.keys() - text.sources.keys() - set(declared.without))


def _refuse_gone_source(name: str, held: Held, text: Text, declared: Declared) -> NoReturn:
    before: Mapping[str, Mapping[str, Json]] = held["sources"]
    new = sorted(text.sources.keys() - before.keys())
    alike = [n for n in new if text.sources[n]["kind"] == before[name]["kind"]]
    msg = (
        f"source {name!r} is gone, and its offsets would be forgotten: if it has another name now, write"
        f" rc.Job(..., {_entry(name, alike, declared)}); to give it up, start with without=[{name!r}]"
    )
    raise OtherDataflowError(msg)


def _entry(name: str, alike: list[str], declared: Declared) -> str:
    """Return the argument to write, with what the program says already."""
    names = {**declared.renamed, name: (alike or ["NEW_NAME"])[0]}
    return f"renamed={names}"


def _alike(one: Mapping[str, Json], other: Mapping[str, Json]) -> bool:
    return all(one.get(part) == other.get(part) for part in ("kind", "keys"))


def _check_tables(held: Held, text: Text, renamed: Mapping[str, str]) -> None:
    """A lookup of an operator that has emitted rows already has to have been there."""
    before = held.get(STATE, {})
    for name, facts in text.state.items():
        read = {renamed.get(n, n) for n in (before.get(name) or {}).get("tables", ())}
        missed = sorted(({*facts["tables"]} & before.keys()) - read)
        if missed:
            msg = (
                f"lookup {name!r} would not have what {missed[0]!r} has emitted up to now: look up in a DataFrame of"
                " what a sink of it has written, lookup(lambda: ..., refresh='1 minute'), or begin another job with"
                " this lookup"
            )
            raise OtherDataflowError(msg)


def _check_same(name: str, held: Held, text: Text) -> None:
    """Raise OtherDataflowError if an operator is another one than before: no migration helps then."""
    was, will = held["identity"][name], text.identity[name]
    before, after = held[STATE][name], text.state[name]
    fixed = held["lasting"][name]["fixed"], text.lasting[name]["fixed"]
    if was["kind"] != will["kind"]:
        reason = f"{was['kind']} cannot become {will['kind']}"
    elif was.get("keys") != will.get("keys"):
        reason = (
            f"its keys cannot change from {', '.join(was['keys'])} to {', '.join(will['keys'])}: state lies where the"
            " hash of its key says"
        )
    elif fixed[0] != fixed[1]:
        reason = other_memory(*fixed)
    elif before["irreplaceable"] != after["irreplaceable"]:
        reason = (
            "what is stored was combined with the previous function, which another cannot continue"
        )
    else:
        return
    msg = f"operator {name!r}: {reason}; {INSTEAD}"
    raise OtherDataflowError(msg)
