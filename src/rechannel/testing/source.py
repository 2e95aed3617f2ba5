"""A scripted source: the rows of every timestep, in order."""

from __future__ import annotations

from collections.abc import Iterable

import pyarrow as pa

from rechannel.model.ddl import schema_of
from rechannel.sources.connectors import MemoryConnector, Rows


def script(
    schema: pa.Schema | str, batches: Iterable[Rows] = (), *, partitions: int = 1
) -> MemoryConnector:
    """A source whose batches become one timestep each; `rc.read().memory(it)` makes it a stream.

    schema: columns, as Arrow or as Spark DDL text. batches: Arrow tables or record batches, or
    lists of one dict per row; an empty batch is a timestep without rows. `push` adds one at any
    time. partitions: splits of a batch, which tasks share among themselves.
    Raises SourceError when rows do not have the columns.
    """
    connector = MemoryConnector(schema=schema_of(schema), partitions=partitions, per_timestep=1)
    for batch in batches:
        connector.push(batch)
    return connector
