"""What a program declares about the state of the program before it: new names, and migrations. Pure.

Both may stay in the program. For each operator, member `declared` of a version's record has the migration that has been
carried out: `digest` of what it says and of the paths of its functions (not of their code, which may be mended),
`using`, whether a function converts the rows, and `from`, the digest of the operator before. A live change that
converts the operator again is noted beside it, as `live`; one that leads back to `from` takes its place, so that the
declared one is to be carried out again.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import Any

from rechannel.dataflow.evolution.migration import Migrate
from rechannel.dataflow.identity.digests import digest_of, path_of
from rechannel.model.codec import Json

DECLARED = "declared"
"""The member."""

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
        return {n: one for n, one in self.migrate.items() if not _is_done(told[n], done.get(n))}

    def member(self, held: Held, operators: Collection[str], made: Collection[str]) -> Held:
        """Return the member of a version that begins with a text; empty without any.

        Earlier migrations are remembered while their operators (`operators` are all) are not converted again. made:
        those that this version converts.
        """
        before = held.get(DECLARED) or {}
        kept = {n: one for n, one in before.items() if n in operators and n not in made}
        mine = {
            name: before[name] if _is_done(one, before.get(name)) else _beginning(one, held, name)
            for name, one in self.told.items()
        }
        return _member({**kept, **mine})


def after_live_change(
    held: Held,
    operators: Collection[str],
    made: Collection[str],
    migrate: Mapping[str, Migrate],
    digests: Mapping[str, str],
) -> Held:
    """Return the member of a version that begins with a live change; empty without any.

    operators, made: as of `Declared.member`. migrate: what the change says of state, by operator. digests: of
    operators, as of the new version.
    """
    before, told = held.get(DECLARED) or {}, Declared(migrate=migrate).told
    found = {n: one for n, one in before.items() if n in operators}
    for name in made:
        if name in found and found[name].get("from") == digests.get(name):
            del found[name]
        if name in told:
            new = told[name]
            found[name] = (
                {**found[name], "live": new} if name in found else _beginning(new, held, name)
            )
    return _member(found)


def conversions(done: Mapping[str, Json]) -> list[Mapping[str, Json]]:
    """Return what has been carried out of an operator's state: by a text, and by a live change since."""
    return [done, *([done["live"]] if "live" in done else [])]


def _is_done(told: Mapping[str, Json], done: Mapping[str, Json] | None) -> bool:
    return done is not None and any(told["digest"] == one["digest"] for one in conversions(done))


def _beginning(told: Mapping[str, Json], held: Held, name: str) -> dict[str, Json]:
    """Return what is kept of a migration that is carried out now."""
    before = (held.get("identity") or {}).get(name)
    return {**told, **({} if before is None else {"from": before["digest"]})}


def _member(found: Mapping[str, Json]) -> Held:
    return {DECLARED: found} if found else {}


def _told(migrate: Migrate) -> dict[str, Json]:
    functions = [
        None if one is None else path_of(one) or digest_of(one).text
        for one in (migrate.using, migrate.back)
    ]
    retype = {name: str(kind) for name, kind in migrate.retype.items()}
    said: list[Any] = [migrate.add, list(migrate.drop), migrate.rename, retype, functions]
    return {"digest": digest_of(said).text, "using": migrate.using is not None}
