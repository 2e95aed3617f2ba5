"""What a program declares about the state of the program before it: new names, and migrations. Pure.

Both may stay in the program. For each operator, member `declared` of a version's record has the migration that has been
carried out: `digest` of what it says and of the paths of its functions (not of their code, which may be mended), and
`using`, whether a function converts the rows.
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
