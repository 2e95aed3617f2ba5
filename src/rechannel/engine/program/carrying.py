"""What a change of the program does to the state of operators that stay: migrations and ways back. Pure."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from rechannel.dataflow.evolution.description import Described
from rechannel.dataflow.evolution.difference import Difference
from rechannel.dataflow.evolution.migration import Migrate
from rechannel.dataflow.evolution.migration_json import migration_to_json
from rechannel.dataflow.evolution.succession import (
    hidden_types,
    migration_between,
    other_types,
)
from rechannel.dataflow.evolution.way_back import way_back
from rechannel.engine.program.schema_versions import directed, pruned
from rechannel.errors import DataflowError, RefusedError, UnknownOperatorError
from rechannel.kernels.protocol.logic import StatefulLogic
from rechannel.kernels.protocol.migrate import Migration, fingerprint
from rechannel.model.codec import Json

Logics = Mapping[str, StatefulLogic]

Stored = Callable[[str], frozenset[str] | None]
"""(operator) -> schema versions of the segments of kept versions; None if they are not known."""


@dataclass(frozen=True, kw_only=True)
class Carried:
    """What happens to an operator's state."""

    forth: Migration
    back: Migration | None
    """Converts the state back; None if that is not possible."""
    why_not: str = ""
    """Why there is no way back."""

    def to_json(self, source: str, target: str) -> dict[str, Json]:
        """Return the passage (see `schema_versions`). Raises RefusedError for a function that cannot be imported."""
        return {
            "from": source,
            "to": target,
            "migration": migration_to_json(self.forth),
            "back": None if self.back is None else migration_to_json(self.back, "back"),
            "no_way_back": self.why_not,
        }


def carried(
    old: Logics,
    new: Logics,
    found: Difference,
    migrate: Mapping[str, Migrate],
    stream_ms: int | None,
) -> dict[str, Carried]:
    """Return what a change does to the state of operators that stay, without those whose state is unchanged."""
    stay = old.keys() & new.keys()
    unknown = sorted(migrate.keys() - stay)
    if unknown:
        msg = f"nothing to migrate at {unknown}: the operators with state that stay are {sorted(stay)}"
        raise UnknownOperatorError(msg)
    retyped = {name for name in stay if _retyped(old[name], new[name])}
    made = {}
    for name in sorted({*found.restated, *found.logic_changed, *migrate, *retyped} & stay):
        one = carried_state(old[name], new[name], migrate.get(name), stream_ms)
        if one is not None:
            made[name] = one
    return made


def carried_state(
    old: Described, new: StatefulLogic, migrate: Migrate | None, stream_ms: int | None
) -> Carried | None:
    """Return what happens to the state of one operator; None if it needs no conversion. Raises RefusedError."""
    forth = migration_between(old, new, migrate, stream_ms=stream_ms)
    return None if forth is None else _with_back(old, new, forth, migrate)


def _retyped(old: StatefulLogic, new: StatefulLogic) -> bool:
    """Return whether types differ of which `Difference.restated` does not tell: Arrow has several for one SQL type."""
    return _columns(old) != _columns(new) or bool(other_types(hidden_types(old), hidden_types(new)))


def _with_back(
    old: Described, new: StatefulLogic, forth: Migration, migrate: Migrate | None
) -> Carried:
    try:
        return Carried(forth=forth, back=way_back(old, new, forth, migrate))
    except (RefusedError, DataflowError) as error:
        if migrate is not None and migrate.back is not None:
            raise
        return Carried(forth=forth, back=None, why_not=str(error))


def next_schema_versions(
    before: Mapping[str, Json],
    old: Mapping[str, Described],
    new: Logics,
    versions: Mapping[str, int],
    made: Mapping[str, Carried],
    stored: Stored,
) -> dict[str, Json]:
    """Return the members `eras` and `migrations` of the next version's record. before: the present record.

    versions: of each operator's logic; they name the new schema versions. A schema version that no segment has and no
    other passage leads through needs no passage: merging has rewritten its state.
    """
    schema_versions: dict[str, str] = {}
    ways: dict[str, Json] = {}
    for name, logic in new.items():
        if name not in old:
            continue
        schema_version: str | None = before["eras"].get(name)
        left = schema_version or _columns(old[name])
        way = directed(before["migrations"].get(name, ()), left)
        if name in made:
            schema_version = f"{_columns(logic)}.{versions[name]}"
            way.append(made[name].to_json(left, schema_version))
        there = stored(name) if way else None
        if there is not None:
            # The present version is written until the timestep boundary: its passage stays, whatever is stored now.
            way = pruned(way, there, left=left if name in made else None)
        if schema_version is not None:
            schema_versions[name] = schema_version
        if way:
            ways[name] = way
    return {"eras": schema_versions, "migrations": ways}


def _columns(state: Described) -> str:
    return fingerprint(state.key_schema, state.state_schema)
