"""Where the dead letters of an operator are kept, and reading them back."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from rechannel.dataflow.graph.nodes import Dataflow, DeadLetters, Node, Sink, Union
from rechannel.errors import NotReadyError, RefusedError
from rechannel.kernels.functions.dead_letters import LETTER, WHOLE_LETTER
from rechannel.sinks.dataset.outlet import DatasetOutlet
from rechannel.sinks.dataset.reading import read_output
from rechannel.sinks.outlets import FileOutlet
from rechannel.sources.input_files.listing import bare, is_remote

_READ = {"parquet": "*.parquet", "json": "*.json"}


def keeper_of(dataflow: Dataflow, operator: str) -> Sink:
    """Return a sink that keeps the dead letters of an operator where they can be read. Raises RefusedError."""
    sinks = [
        node
        for node in dataflow.nodes
        if isinstance(node, Sink) and operator in _letters_of(node.upstream)
    ]
    readable = [sink for sink in sinks if _reads(sink) is not None]
    if readable:
        return readable[0]
    where = ", ".join(sink.outlet.describe() for sink in sinks)
    msg = (
        f"the dead letters of {operator!r} go to {where}, where they cannot be read back: write them to a dataset, or"
        " to local files of Parquet or uncompressed JSON, too: rc.dead_letters(...).write.dataset('dead')"
    )
    raise RefusedError(msg)


def letters_in(sink: Sink, since: int | None, until: int) -> pa.Table:
    """Return the dead letters that a sink has published, with the columns of `WHOLE_LETTER`.

    since, until: the first and last timestep; None = from the first on.
    """
    read = _reads(sink)
    if read is None:
        raise RefusedError(f"sink {sink.name!r} cannot be read back")
    first = 0 if since is None else since
    tables = [WHOLE_LETTER.empty_table(), *read(first, until)]
    whole = pa.concat_tables(tables)
    at = whole.column("at_timestep").to_numpy()
    return whole.filter(pa.array((at >= first) & (at <= until)))


def _letters_of(node: Node) -> set[str]:
    """Return the operators whose dead letters are among the rows of a node, as they left."""
    if isinstance(node, Union):
        return {name for each in node.inputs for name in _letters_of(each)}
    return {str(node.upstream.name)} if isinstance(node, DeadLetters) else set()


def _reads(sink: Sink) -> Callable[[int, int], Iterator[pa.Table]] | None:
    """Return what reads timesteps of a sink; None if they cannot be read."""
    outlet = sink.outlet
    if isinstance(outlet, DatasetOutlet) and not outlet.wanted.keys:
        return lambda first, last: _of_dataset(outlet.path, first, last)
    if (
        isinstance(outlet, FileOutlet)
        and outlet.format in _READ
        and not outlet.partitions
        and (outlet.format != "json" or "compression" not in outlet.options)
        and not is_remote(outlet.path)
    ):
        return lambda first, last: _of_files(outlet, first, last)
    return None


def _of_dataset(path: str, first: int, last: int) -> Iterator[pa.Table]:
    del first, last
    try:
        table = read_output(path).table()
    except NotReadyError:  # nothing was published yet
        return
    if "at_timestep" not in table.column_names:
        msg = (
            f"the dead letters in {path} do not say of which timestep they are: write rc.dead_letters(...), which has"
            " the column at_timestep"
        )
        raise RefusedError(msg)
    yield _whole(table, 0)


def _of_files(outlet: FileOutlet, first: int, last: int) -> Iterator[pa.Table]:
    root = Path(bare(outlet.path))
    for folder in sorted(root.glob(f"{outlet.column}=*")):
        timestep = int(folder.name.partition("=")[2])
        if not first <= timestep <= last:
            continue
        for file in sorted(folder.glob(_READ[outlet.format])):
            yield _whole(_file(file, outlet.format), timestep)


def _file(file: Path, kind: str) -> pa.Table:
    if kind == "parquet":
        return pq.read_table(file, partitioning=None)
    # Only a line feed ends a record: texts may have other separators of lines in them.
    lines = file.read_text(encoding="utf-8").split("\n")
    rows = [json.loads(line) for line in lines if line]
    return pa.Table.from_pylist([{**dict.fromkeys(WHOLE_LETTER.names), **row} for row in rows])


def _whole(table: pa.Table, timestep: int) -> pa.Table:
    """Return dead letters with all columns. timestep: of those that do not say it."""
    missing = [name for name in LETTER.names if name not in table.column_names]
    if missing:
        raise RefusedError(f"these are no dead letters: they have no column {missing[0]!r}")
    count = table.num_rows
    columns = [
        table.column(field.name).cast(field.type)
        if field.name in table.column_names
        else pa.nulls(count, field.type)
        for field in WHOLE_LETTER
    ]
    at = WHOLE_LETTER.get_field_index("at_timestep")
    if columns[at].null_count:
        columns[at] = pa.repeat(pa.scalar(timestep, pa.int64()), count)
    return pa.Table.from_arrays(columns, schema=WHOLE_LETTER)
