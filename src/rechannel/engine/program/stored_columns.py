"""The columns of stored state, and what converts rows of earlier versions to them, without the program. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import pyarrow as pa

from rechannel.dataflow.evolution.description import Description, KeptAggregate
from rechannel.dataflow.evolution.migration_json import migration_from_json
from rechannel.dataflow.identity.provided import Provided
from rechannel.engine.program.describing import STATE
from rechannel.engine.program.programs import Passage, ways_to
from rechannel.engine.program.schema_versions import directed
from rechannel.kernels.protocol.migrate import Chain
from rechannel.model.codec import Json


@dataclass(frozen=True, kw_only=True)
class StoredColumns:
    """The columns of an operator's state."""

    schema: pa.Schema
    """Key and state columns."""
    keys: int
    """How many of them are keys."""
    ways: Mapping[str, Chain]
    """By schema version of a segment, what converts its rows; versions from which only a function of the user leads
    are missing."""
    aggregates: tuple[KeptAggregate, ...] = ()
    """What state columns are parts of, as far as it is known."""


def stored_columns(record: Mapping[str, Json], operator: str) -> StoredColumns | None:
    """Return the columns of an operator as of a version; None if the journal does not have them.

    record: what the journal keeps of the version.
    """
    known: Mapping[str, Json] | None = (record.get(STATE) or {}).get(operator)
    if known is None:
        return None
    state = Description.from_json(known)
    present = record["eras"].get(operator) or state.columns
    passages = [
        Passage(
            source=one["from"],
            target=one["to"],
            migration=migration_from_json(one["migration"], Provided()),
        )
        for one in directed(record["migrations"].get(operator, ()), present)
        if one["migration"]["using"] is None
    ]
    return StoredColumns(
        schema=pa.schema([*state.key_schema, *state.state_schema]),
        keys=len(state.key_schema),
        ways={**ways_to(present, passages), present: ()},
        aggregates=state.aggregates or (),
    )
