"""The dead letters of a whole dataflow, or of some of its operators, as one stream."""

from __future__ import annotations

from collections.abc import Iterable

from rechannel.dataflow.checks.dead import letters_leave, need_dead_letters
from rechannel.dataflow.graph.naming import FreeName, caller, given, stateless_name
from rechannel.dataflow.graph.nodes import Dataflow, DeadLetters, Node, Union
from rechannel.dataflow.streams.stream import Stream, one_session, rows_themselves
from rechannel.dataflow.streams.writer import Flow
from rechannel.errors import DataflowError, UnknownOperatorError
from rechannel.kernels.functions.dead_letters import WHOLE_LETTER
from rechannel.operators.checks import suggest

NAME = "dead_letters"


def dead_letters(
    *ends: Flow | Stream, of: str | Iterable[str] | None = None, name: str | None = None
) -> Stream:
    """Return the rows that the operators of a dataflow cannot handle, as one stream for a sink of any kind.

        rc.dead_letters(totals.write.parquet("out")).write.json("dead")

    Columns: those of `Stream.dead_letters`, and `at_timestep`, `source` (its name; null if rows of several meet in
    the operator) and `offset` (topic, partition and offset as the text of a JSON object; null unless the row has all
    three columns).

    Args:
        ends: of the dataflow: what is given to `rc.Job`, without this.
        of: names of operators; None = all that have `on_error="dead_letter"`.
        name: of the stream.

    Raises:
        DataflowError: an operator has no dead letters, or none of the dataflow has any.
        UnknownOperatorError: the dataflow has no operator of a name.
    """
    for end in ends:
        if not isinstance(end, Flow | Stream):
            msg = f"dead_letters ({caller()}): a dataflow ends in stream.write..., not in {type(end).__name__}"
            raise DataflowError(msg)
    dataflow = Dataflow.of(*(end.node for end in ends))
    chosen = _leaving(dataflow) if of is None else _named(dataflow, of)
    sides = [_side(node) for node in chosen]
    made = Union(name=given(name, FreeName(NAME)), where=caller(), inputs=tuple(sides))
    return Stream(node=made, session=one_session(*ends))


def _leaving(dataflow: Dataflow) -> list[Node]:
    found = [node for node in dataflow.nodes if letters_leave(node)]
    if not found:
        msg = (
            f"dead_letters ({caller()}): no operator of this dataflow has dead letters: give one"
            " on_error='dead_letter'"
        )
        raise DataflowError(msg)
    return found


def _named(dataflow: Dataflow, of: str | Iterable[str]) -> list[Node]:
    names = [of] if isinstance(of, str) else list(of)
    if not names:
        msg = f"dead_letters ({caller()}): of= names no operator; leave it out for all"
        raise DataflowError(msg)
    for each in names:
        if each not in dataflow.by_name:
            known = [str(node.name) for node in _leaving(dataflow)]
            msg = f"dead_letters ({caller()}): the dataflow has no operator {each!r}{suggest(str(each), known)}"
            raise UnknownOperatorError(msg)
        need_dead_letters(dataflow.by_name[each])
    return [dataflow.by_name[each] for each in dict.fromkeys(names)]


def _side(node: Node) -> DeadLetters:
    return DeadLetters(
        name=given(None, stateless_name(node, "dead_letters")),
        where=caller(),
        upstream=node,
        function=rows_themselves,
        schema=WHOLE_LETTER,
    )
