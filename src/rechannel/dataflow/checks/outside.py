"""What functions of a dataflow need outside of it, which the driver sees to before any work starts."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol, runtime_checkable

import pyarrow as pa

from rechannel.dataflow.graph.nodes import Dataflow, MapBatches
from rechannel.dataflow.graph.rules import label
from rechannel.errors import RechannelError


@runtime_checkable
class Agreeing(Protocol):
    """A function of batches that has to agree on something with the world outside, such as on a schema."""

    def agree(self, schema: pa.Schema) -> None:
        """Do so. schema: of the rows that it will receive. Raises RechannelError."""


def see_outside(dataflow: Dataflow, schemas: Mapping[str, pa.Schema]) -> None:
    """Have every function agree with what is outside. schemas: columns of every node.

    Raises what a function raises, with the name of the node.
    """
    for node in dataflow.nodes:
        if isinstance(node, MapBatches) and isinstance(node.function, Agreeing):
            try:
                node.function.agree(schemas[node.upstream.name])
            except RechannelError as error:
                raise type(error)(f"{label(node)}: {error}") from error
