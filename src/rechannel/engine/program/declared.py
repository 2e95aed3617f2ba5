"""New names and migrations that a program declares, against what the journal keeps. Pure.

A rename has been made if the journal knows the new name; which migrations have been carried out, member `declared` of
a version's record says (`dataflow/evolution/declared.py`).
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import replace
from typing import Any

from rechannel.dataflow.evolution.declared import DECLARED, Declared, Held
from rechannel.dataflow.streams.lookups import TABLE
from rechannel.dataflow.streams.ordering import ORDER
from rechannel.engine.program.describing import STATE
from rechannel.engine.program.leading_back import Text
from rechannel.errors import OtherDataflowError
from rechannel.model.codec import Json
from rechannel.model.configuration import Configuration
from rechannel.operators.checks import suggest

_BY_NAME = (
    *("identity", "operators", "lasting", "sources", STATE, "logics", "eras", "migrations"),
    DECLARED,
)
"""Members of a version's record that are mappings by the names of nodes."""


def check_declared(declared: Declared, held: Held) -> None:
    """Raise OtherDataflowError if a program that starts without an upgrade declares what has not been done."""
    left = sorted(declared.undone(held))
    if held and left:
        msg = (
            f"the program declares a migration of {left}, which has not been carried out: `rechannel upgrade FILE`"
            " shows what it would do, and start(upgrade=True) does it"
        )
        raise OtherDataflowError(msg)


def renames(declared: Declared, held: Held, text: Text) -> dict[str, str]:
    """Return the declared renames that have not been made. Raises OtherDataflowError for those that cannot be."""
    known = {**held.get(STATE, {}), **(held.get("sources") or {})}
    mine = {**text.state, **text.sources}
    made: dict[str, str] = {}
    for old in declared.renamed:
        names = _names_since(old, declared.renamed, mine)
        new = names[-1]
        if any(name in known for name in names) and (old not in known or old in mine):
            continue  # made before
        _check_rename(old, new, held, text, known, mine)
        if new in made.values():
            msg = f"renamed={dict(declared.renamed)}: two of them get the name {new!r}"
            raise OtherDataflowError(msg)
        made[old] = new
    return {**made, **_followers(made, known, mine, declared)}


def _followers(
    made: Mapping[str, str], known: Collection[str], mine: Collection[str], declared: Declared
) -> dict[str, str]:
    """Return new names of what was made for an operator that has one, such as `alerts.order` of `alerts`."""
    found: dict[str, str] = {}
    for old, new in made.items():
        for name in known:
            other = new + name[len(old) :]
            if (
                belongs(name, old)
                and name not in (*mine, *made, *declared.without)
                and other in mine
                and other not in (*known, *made.values())
            ):
                found[name] = other
    return found


def belongs(name: str, operator: str) -> bool:
    """Whether it is what Rechannel makes for an operator: what sorts its rows, or the source of a lookup's table."""
    return name in {f"{operator}{made}" for made in (ORDER, TABLE)}


def _names_since(old: str, renamed: Mapping[str, str], mine: Collection[str]) -> list[str]:
    """Return the names that an entry leads to: more than one, if what it names has been renamed again since."""
    names = [renamed[old]]
    while names[-1] not in mine and (after := renamed.get(names[-1])) not in {None, old, *names}:
        names.append(str(after))
    return names


def _check_rename(
    old: str,
    new: str,
    held: Held,
    text: Text,
    known: Collection[str],
    mine: Collection[str],
) -> None:
    entry = f"renamed={{{old!r}: {new!r}}}"
    if new not in mine:
        msg = f"{entry}: the program has no operator or source {new!r}{suggest(new, list(mine))}"
    elif old in mine:
        msg = f"{entry}: the program still has {old!r}; give one of them another name"
    elif old not in known:
        msg = f"{entry}: this state directory has no operator or source {old!r}{suggest(old, list(known))}"
    elif new in held["identity"]:
        msg = (
            f"{entry}: the program before has {new!r} already; leave the entry out, or choose another name for the"
            f" operator or source that was {old!r}"
        )
    elif (old in held.get(STATE, {})) != (new in text.state):
        msg = f"{entry}: one is an operator, the other a source"
    else:
        return
    raise OtherDataflowError(msg)


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


def with_operator_names(configuration: Configuration, renamed: Mapping[str, str]) -> Configuration:
    """Return a Configuration with new names of operators and sources."""
    if not renamed:
        return configuration

    def new(mapping: Mapping[str, Any]) -> dict[str, Any]:
        return {renamed.get(name, name): one for name, one in mapping.items()}

    return replace(
        configuration,
        operators=new(configuration.operators),
        bounds=new(configuration.bounds),
        byte_bounds=new(configuration.byte_bounds),
    )
