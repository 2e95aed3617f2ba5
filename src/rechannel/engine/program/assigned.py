"""Logic that a running stream was given as a factory and parameters: a driver that starts makes it again. Pure.

A model that a controller has trained is in no program's text, so the journal keeps the path of its factory and its
parameters, beside the digest of the logic that the text had then:

    the node's text is as it was then    the logic is made again
    it is another one                    the text counts
    start(revert=True)                   the text counts
    it was read by another Python        the logic is made again: digests cannot be compared

The journal never names code that the program does not know. The factory has to stand in a module that the program is
written in, or in one that its owner allows (`rc.Job(allow=...)`).
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import Any

from rechannel.dataflow.evolution.difference import Difference
from rechannel.dataflow.evolution.evolution import with_logic
from rechannel.dataflow.graph.nodes import Dataflow
from rechannel.dataflow.identity.factories import Factory, Find
from rechannel.dataflow.identity.logic import logic_identity
from rechannel.dataflow.identity.provided import PYTHON, Provided
from rechannel.errors import OtherDataflowError, RechannelError
from rechannel.logs import fields
from rechannel.model.codec import Json

_LOG = logging.getLogger("rechannel")

ASSIGNED = "assigned"
"""Member of a version's record, by node: `function` (the factory), `parameters`, `in_place_of` (a digest), `python`."""


def assigned_after(
    record: Mapping[str, Json], difference: Difference, made: Mapping[str, Factory]
) -> dict[str, Json]:
    """Return the record's member for the next version; empty if no logic is made of parameters.

    record: of the version before. made: by node, what makes its logic from now on.
    """
    held: Mapping[str, Json] = record.get(ASSIGNED) or {}
    over = {*difference.logic_changed, *difference.removed}
    kept = {name: one for name, one in held.items() if name not in over}
    for name, factory in made.items():
        if name not in difference.added:
            before = (
                held[name]["in_place_of"] if name in held else record["identity"][name]["digest"]
            )
            kept[name] = {
                "function": factory.path,
                "parameters": dict(factory.parameters),
                "in_place_of": before,
                "python": PYTHON,
            }
    return {ASSIGNED: kept} if kept else {}


def assigned_again(
    dataflow: Dataflow, record: Mapping[str, Json], provided: Provided, find: Find | None
) -> tuple[Dataflow, dict[str, Json]]:
    """Return a program's dataflow with the logic that was assigned to it while it ran, and the record's member.

    record: of the running version. find: imports what the owner allows. Raises OtherDataflowError if the factory is not
    known to the program, or does not make a function any more.
    """
    kept: dict[str, Json] = {}
    for name, one in (record.get(ASSIGNED) or {}).items():
        node = dataflow.by_name.get(name)
        digest = None if node is None else logic_identity(node).digest
        if digest is None or (digest != one["in_place_of"] and one["python"] == PYTHON):
            _LOG.warning(
                "%r has another function in the program's text since %r has made one",
                name,
                one["function"],
                extra=fields("assigned_function_replaced", operator=name, function=one["function"]),
            )
            continue
        factory = Factory(path=one["function"], parameters=one["parameters"])
        try:
            function = factory.made(lambda path: _found(path, provided, find))
        except RechannelError as error:
            msg = (
                f"{name!r} was given a function while it ran, {factory}, and it cannot be made again: {error}."
                " Mend that, or go on with the function in the program's text: start(revert=True)"
            )
            raise OtherDataflowError(msg) from error
        dataflow = with_logic(dataflow, name, function)
        kept[name] = {**one, "in_place_of": digest, "python": PYTHON}
    return dataflow, ({ASSIGNED: kept} if kept else {})


def _found(path: str, provided: Provided, find: Find | None) -> Any:
    known = provided.at(path)
    if known is not None:
        return known
    if find is None:
        module = path.partition(":")[0]
        msg = (
            f"the program is not written in the module of {path!r}, and what only a state directory names is never"
            f" imported: allow it with rc.Job(allow=[{module!r}])"
        )
        raise OtherDataflowError(msg)
    return find(path)
