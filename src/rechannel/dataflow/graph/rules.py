"""What must hold at each node, given the columns of what feeds it."""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa

from rechannel.dataflow.graph.nodes import (
    Changelog,
    DeadLetters,
    Late,
    MapBatches,
    Node,
    Paired,
    SideOutput,
    Sink,
    Stateful,
    Union,
)
from rechannel.dataflow.graph.timing import untimed
from rechannel.errors import DataflowError
from rechannel.model.ddl import alike_but_for_case, type_name
from rechannel.model.decoded import decoded_type
from rechannel.operators.checks import need_columns

RESERVED = "_rc"
"""Columns that begin with this are Rechannel's own."""

_DIRECTORIES = (
    pa.types.is_string,
    pa.types.is_large_string,
    pa.types.is_integer,
    pa.types.is_date32,
    pa.types.is_boolean,
)


_MARKS = {b"variant", b"geometry", b"geography"}


def label(node: Node) -> str:
    """How messages name a node: kind, name and the user's line."""
    return f"{kind_of(node)} {node.name!r} ({node.where})"


def kind_of(node: Node) -> str:
    """One word for what a node is."""
    if isinstance(node, Stateful):
        return node.spec.kind
    if isinstance(node, Late):
        return "late"
    if isinstance(node, DeadLetters):
        return "dead_letters"
    if isinstance(node, Changelog):
        return "changelog"
    if isinstance(node, SideOutput):
        return "side_output"
    if isinstance(node, MapBatches):
        return "map"
    return type(node).__name__.lower()


def check_count(node: Node, what: str, value: int | None) -> None:
    """Raise DataflowError for a number of `what` that is no whole number of at least 1."""
    if value is not None and (isinstance(value, bool) or not isinstance(value, int) or value < 1):
        msg = f"{label(node)}: {what} must be a whole number of at least 1, not {value!r}"
        raise DataflowError(msg)


def check_numbers(node: Stateful) -> None:
    """Raise DataflowError for an invalid number of tasks or bins, or an invalid preload."""
    check_count(node, "tasks", node.tasks)
    check_count(node, "bins", node.bins)
    if node.tasks is not None and node.bins is not None and node.bins < node.tasks:
        msg = f"{label(node)}: {node.tasks} tasks need at least one bin each, not {node.bins}; increase bins="
        raise DataflowError(msg)
    if node.initial is not None and not callable(node.initial):
        msg = f"{label(node)}: preload must be a function that makes a DataFrame"
        raise DataflowError(msg)


def check_inputs(node: Node, inputs: Sequence[pa.Schema]) -> None:
    """Raise DataflowError if a node cannot take these columns."""
    if isinstance(node, Paired):
        _check_sides(node, inputs)
    elif isinstance(node, Union):
        _check_union(node, inputs)
    elif isinstance(node, Stateful):
        _check_keys(node, inputs[0])
        _check_time(node)
        _check_broadcasts(node)
    elif isinstance(node, Sink):
        own = node.outlet.column
        _check_partitions(node, node.outlet.partitions, inputs[0], own)
        _check_hidden(node, own, inputs[0])


def _check_hidden(node: Sink, own: str, schema: pa.Schema) -> None:
    """Directories of timesteps are a column to readers, whose case Spark does not mind."""
    for name in schema.names:
        if name.lower() == own.lower():
            msg = (
                f"{label(node)}: readers take {own!r} from the directory of the timestep, so the rows' own column"
                f" {name!r} would be lost. Rename that column, or give that of the directories another name:"
                " write.format(...).timesteps_as('batch').save(path)"
            )
            raise DataflowError(msg)


def _check_partitions(node: Sink, columns: Sequence[str], schema: pa.Schema, own: str) -> None:
    need_columns(f"{label(node)}: partition_by", columns, schema)
    for name in columns:
        kind = schema.field(name).type
        if name == own or not any(is_(kind) for is_ in _DIRECTORIES):
            what = "is that of the timestep" if name == own else f"is {type_name(kind)}"
            msg = (
                f"{label(node)}: partition_by: column {name!r} {what}; directories are made of other columns that"
                " are strings, whole numbers, dates or booleans"
            )
            raise DataflowError(msg)
    twice = [name for place, name in enumerate(columns) if name in columns[:place]]
    if twice:
        msg = f"{label(node)}: partition_by names column {twice[0]!r} twice; name each column once"
        raise DataflowError(msg)
    if columns and len(columns) == len(schema):
        msg = f"{label(node)}: partition_by has all columns; leave at least one out, for the files"
        raise DataflowError(msg)


def _check_time(node: Stateful) -> None:
    if not node.spec.needs_time:
        return
    without = untimed(node.upstream)
    if without:
        names = ", ".join(repr(str(each.name)) for each in without)
        msg = (
            f"{label(node)} needs to know how far event time has come, and rows of {names} get there without one:"
            " call stream.event_time('column', delay='10 seconds') upstream"
        )
        raise DataflowError(msg)


def _check_broadcasts(node: Stateful) -> None:
    names = node.spec.broadcast
    if len(names) != len(node.broadcasts):
        msg = (
            f"{label(node)} has {len(node.broadcasts)} broadcast inputs, and its logic {len(names)}"
            f" ({', '.join(names) or 'none'}): keep the same broadcast=, or start the job with a new"
            " version of the program"
        )
        raise DataflowError(msg)
    for name, table in zip(names, node.broadcasts, strict=True):
        need_table(f"{label(node)}: broadcast input {name!r}", table)


def need_table(what: str, node: object) -> None:
    """Raise DataflowError unless a node is an operator whose state is a table with one row per key."""
    if isinstance(node, Stateful) and node.spec.one_row_per_key:
        return
    is_ = f"is {label(node)}" if isinstance(node, Node) else f"is {node!r}"
    msg = (
        f"{what} {is_}, which keeps no table with one row per key: give it the stream of latest(...), track(...),"
        " track_batches(...), aggregate(...) or running_reduce(...) itself, before other functions, as in"
        " rules.key_by('rule').latest()"
    )
    raise DataflowError(msg)


def check_output(node: Node, schema: pa.Schema) -> None:
    """Raise DataflowError if a node's columns are ambiguous, use a reserved name, or are encoded."""
    names = schema.names
    for field in schema:
        plain = decoded_type(field.type)
        if plain != field.type:
            msg = (
                f"{label(node)}: column {field.name!r} is declared as {field.type}, but rows have decoded values:"
                f" declare it as {type_name(plain)}"
            )
            raise DataflowError(msg)
    for name in names:
        if name.startswith(RESERVED):
            msg = (
                f"{label(node)}: column {name!r} begins with '{RESERVED}', which is "
                "reserved; rename it"
            )
            raise DataflowError(msg)
        if names.count(name) > 1:
            msg = f"{label(node)}: there are two columns {name!r}; rename one of them"
            raise DataflowError(msg)
    alike = alike_but_for_case(names)
    if alike is not None:
        msg = (
            f"{label(node)}: columns {alike[0]!r} and {alike[1]!r} differ in case only, and are one to Spark; rename"
            " one of them"
        )
        raise DataflowError(msg)


def groupable(kind: pa.DataType) -> bool:
    """Whether values of a type can be keys: equal values have one form, and one hash."""
    if pa.types.is_map(kind) or pa.types.is_union(kind) or isinstance(kind, pa.ExtensionType):
        return False
    if pa.types.is_struct(kind):
        # Spark's variants and places come as structs; those that say the same may differ in bytes.
        marked = any(set(field.metadata or ()) & _MARKS for field in kind.fields)
        return not marked and all(groupable(field.type) for field in kind.fields)
    if pa.types.is_nested(kind):
        return groupable(kind.value_type)
    return True


def _check_keys(node: Stateful, schema: pa.Schema) -> None:
    need_columns(label(node), node.keys, schema)
    for key in node.keys:
        kind = schema.field(key).type
        if not groupable(kind):
            msg = (
                f"{label(node)}: key {key!r} is {type_name(kind)}, which cannot be grouped by; "
                "take a field of it, or array_sort(map_entries(...)) of a map"
            )
            raise DataflowError(msg)


def _check_union(node: Union, inputs: Sequence[pa.Schema]) -> None:
    first = inputs[0]
    for other, upstream in zip(inputs[1:], node.inputs[1:], strict=True):
        difference = _difference(first, other)
        if difference:
            msg = (
                f"{label(node)}: {upstream.name!r} does not have the columns of "
                f"{node.inputs[0].name!r}: {difference}; make them alike before the union"
            )
            raise DataflowError(msg)


def _check_sides(node: Paired, inputs: Sequence[pa.Schema]) -> None:
    left, right = inputs
    for key in node.keys:
        if left.field(key).type != right.field(key).type:
            kinds = f"{type_name(left.field(key).type)} and {type_name(right.field(key).type)}"
            msg = f"{label(node)}: key {key!r} is {kinds} on the two sides; cast one of them"
            raise DataflowError(msg)


def _difference(one: pa.Schema, other: pa.Schema) -> str:
    """The first way in which two column lists differ, or nothing. Nullability may differ."""
    for name in one.names:
        if name not in other.names:
            return f"column {name!r} is missing"
    for name in other.names:
        if name not in one.names:
            return f"column {name!r} is one too many"
    if one.names != other.names:
        return f"their order is {', '.join(other.names)}, not {', '.join(one.names)}"
    for a, b in zip(one, other, strict=True):
        if a.type != b.type:
            return f"column {a.name!r} is {type_name(b.type)}, not {type_name(a.type)}"
    return ""
