"""How streams and their ends show themselves in a shell and in a notebook."""

from __future__ import annotations

from rechannel.dataflow.graph.nodes import Dataflow, Node
from rechannel.dataflow.graph.schema import known
from rechannel.dataflow.pictures.svg import draw_svg
from rechannel.model.ddl import columns_text


def columns_of(node: Node) -> str:
    """Return names and types of a node's columns, or why they are missing."""
    schema = known(node)
    return "columns known to Spark alone" if schema is None else columns_text(schema)


def picture_of(node: Node) -> str:
    """Return the dataflow that leads to a node as SVG."""
    return draw_svg(Dataflow.of(node))
