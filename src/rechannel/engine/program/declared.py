"""What a program declares about the state of the program before it: new names, and migrations. Pure.

Both may stay in the program. A rename has been made if the journal knows the new name. For each operator, member
`declared` of a version's record has the migration that has been carried out: `digest` of what it says and of the paths
of its functions (not of their code, which may be mended), and `using`, whether a function converts the rows.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from rechannel.dataflow.evolution.migration import Migrate
from rechannel.dataflow.identity.digests import digest_of, path_of
from rechannel.engine.program.describing import STATE
from rechannel.engine.program.leading_back import Text
from rechannel.errors import OtherDataflowError
from rechannel.model.codec import Json
from rechannel.model.configuration import Configuration
from rechannel.operators.checks import suggest

DECLARED = "declared"
"""The member."""

_BY_NAME = (
    *("identity", "operators", "lasting", "sources", STATE, "logics", "eras", "migrations"),
    DECLARED,
)
"""Members of a version's record that are mappings by the names of nodes."""

Held = Mapping[str, Json]
"""What the journal keeps of the running version."""


@dataclass(frozen=True, kw_only=True)
class Declared:
    """What a program declares, and what its start permits."""

    renamed: Mapping[str, str] = field(default_factory=dict)
    """New names of operators and sources, by their old names."""
    migrate: Mapping[str, Migrate] = field(default_factory=dict)
    """What becomes of state whose columns change, by operator (its new name)."""
    without: Collection[str] = ()
    """Operators whose state is dropped, sources whose offsets are."""

    @property
    def told(self) -> dict[str, dict[str, Json]]:
        """Return what the journal keeps of every migration, by operator."""
        return {name: _told(one) for name, one in sorted(self.migrate.items())}

    def undone(self, held: Held) -> dict[str, Migrate]:
        """Return the migrations that have not been carried out. held: under the new names."""
        done, told = held.get(DECLARED) or {}, self.told
        return {name: one for name, one in self.migrate.items() if done.get(name) != told[name]}

    def member(self, held: Held, operators: Collection[str], made: Collection[str]) -> Held:
        """Return the member of a version that begins; empty without any.

        Earlier migrations are remembered while their operators (`operators` are all) are not converted again. made:
        those that this version converts.
        """
        before = held.get(DECLARED) or {}
        kept = {n: one for n, one in before.items() if n in operators and n not in made}
        found = {**kept, **self.told}
        return {DECLARED: found} if found else {}


def _told(migrate: Migrate) -> dict[str, Json]:
    functions = [
        None if one is None else path_of(one) or digest_of(one).text
        for one in (migrate.using, migrate.back)
    ]
    retype = {name: str(kind) for name, kind in migrate.retype.items()}
    said: list[Any] = [migrate.add, list(migrate.drop), migrate.rename, retype, functions]
    return {"digest": digest_of(said).text, "using": migrate.using is not None}


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
    return made


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
