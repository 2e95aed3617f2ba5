"""The program of a replay: the text that is given, as the version that the timesteps ran under. Pure."""

from __future__ import annotations

from collections.abc import Collection, Mapping

import pyarrow as pa

from rechannel.dataflow.checks.check import fingerprint
from rechannel.dataflow.graph.nodes import Dataflow
from rechannel.dataflow.identity.factories import Find
from rechannel.dataflow.identity.logic import dataflow_identity
from rechannel.dataflow.identity.provided import Provided
from rechannel.engine.program.assigned import ASSIGNED, assigned_again
from rechannel.engine.program.physical import PhysicalPlan, SinkBufferFrame, leaves
from rechannel.engine.program.restarting import check_state, lasting
from rechannel.engine.program.versions import Program, bound, compile_program
from rechannel.engine.replay.selecting import Selection
from rechannel.errors import OtherDataflowError, RefusedError
from rechannel.model.codec import Json
from rechannel.state.store import Store

_SHAPE = ("kind", "upstreams", "keys")
"""What must be the same of every node."""


def dataflow_then(
    dataflow: Dataflow,
    selection: Selection,
    provided: Provided,
    find: Find | None,
    logic: Collection[str] = (),
) -> Dataflow:
    """Return a program's dataflow with the logic that the timesteps were given while the stream ran.

    find: imports what the owner allows. logic: nodes that get other logic anyway. Raises RefusedError.
    """
    held: Mapping[str, Json] = selection.record.get(ASSIGNED) or {}
    wanted = {name: one for name, one in held.items() if name not in logic}
    try:
        return assigned_again(dataflow, {ASSIGNED: wanted}, provided, find)[0]
    except OtherDataflowError as error:
        msg = (
            f"timesteps {selection.first} to {selection.last} cannot be replayed with the functions that they ran with:"
            f" {error.__cause__ or error}. Allow them, or give these nodes logic: replay(..., logic={{...}})"
        )
        raise RefusedError(msg) from error


def program_then(
    dataflow: Dataflow,
    schemas: Mapping[str, pa.Schema],
    store: Store,
    selection: Selection,
    provided: Provided,
) -> Program:
    """Return the program of the timesteps, with the logic of a dataflow.

    Raises RefusedError unless the dataflow has the nodes and the state that the timesteps ran with.
    """
    held, identity = selection.record, dataflow_identity(dataflow)
    _check_nodes(held["identity"], identity, selection)
    try:
        check_state(
            fingerprint(dataflow, schemas), lasting(dataflow, bound(dataflow, schemas)), held
        )
    except OtherDataflowError as error:
        msg = (
            f"timesteps {selection.first} to {selection.last} cannot be replayed with this logic, because they begin"
            f" with stored state: {error}"
        )
        raise RefusedError(msg) from error
    record = {"logics": {}, "eras": {}, "migrations": {}, **held, "identity": identity}
    return compile_program(dataflow, schemas, store, selection.program, record, provided)


def _check_nodes(then: Mapping[str, Json], now: Mapping[str, Json], selection: Selection) -> None:
    which = f"version {selection.program} of the dataflow, which ran timesteps {selection.first} to {selection.last}"
    gone, new = sorted(then.keys() - now.keys()), sorted(now.keys() - then.keys())
    if gone or new:
        msg = f"this program lacks the nodes {gone} of {which}, and has others: {new}. Replay with the program of then"
        raise RefusedError(msg)
    for name, facts in now.items():
        if any(facts.get(each) != then[name].get(each) for each in _SHAPE):
            msg = f"node {name!r} is another one than in {which}: only its logic may differ"
            raise RefusedError(msg)


def other_logic(selection: Selection, program: Program) -> tuple[str, ...]:
    """Return the nodes whose logic is not that of then. Places of sinks do not matter: nothing is written there."""
    then, now = selection.record["identity"], program.record["identity"]
    return tuple(
        name
        for name, facts in now.items()
        if facts["kind"] != "sink" and facts["digest"] != then[name]["digest"]
    )


def sinks_by_node(plan: PhysicalPlan) -> dict[str, tuple[str, ...]]:
    """Return the sinks that read the kept rows of each node."""
    found: dict[str, tuple[str, ...]] = {}
    for sink in plan.sinks:
        for leaf in leaves(sink.frame):
            if isinstance(leaf, SinkBufferFrame):
                found[leaf.node] = (*found.get(leaf.node, ()), str(sink.sink.name))
    return found
