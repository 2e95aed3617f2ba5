"""What the journal keeps of the state of every operator, for a program whose text is another. Pure.

Member `state` of a version's record, by operator: `Description.to_json`, and beside it `irreplaceable` (digest of logic
that no other can go on from; null if other logic may) and `tables` (operators whose rows are the table of a lookup).
"""

from __future__ import annotations

from collections.abc import Mapping

from rechannel.dataflow.evolution.description import Description
from rechannel.dataflow.evolution.difference import lasting_digest, tables_of
from rechannel.dataflow.graph.nodes import Dataflow, Stateful
from rechannel.kernels.protocol.logic import StatefulLogic
from rechannel.model.codec import Json

STATE = "state"
"""The member."""


def state_of(dataflow: Dataflow, logics: Mapping[str, StatefulLogic]) -> dict[str, dict[str, Json]]:
    """Return the member `state` of the record of a dataflow. logics: of all operators."""
    return {
        str(node.name): {
            **Description.of(logics[node.name]).to_json(),
            "irreplaceable": _irreplaceable(node),
            "tables": [str(name) for name in tables_of(node)],
        }
        for node in dataflow.nodes
        if isinstance(node, Stateful)
    }


def _irreplaceable(node: Stateful) -> str | None:
    return None if node.spec.irreplaceable is None else lasting_digest(node.spec)
