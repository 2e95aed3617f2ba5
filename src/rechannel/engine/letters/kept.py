"""Where the dead letters of an operator are kept, and reading them back."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.json as pj
import pyarrow.parquet as pq

from rechannel.dataflow.graph.nodes import Dataflow, DeadLetters, Node, Sink, Union
from rechannel.errors import NotReadyError, RefusedError
from rechannel.kernels.functions.dead_letters import LETTER, WHOLE_LETTER
from rechannel.sinks.dataset.outlet import DatasetOutlet
from rechannel.sinks.dataset.reading import read_output
from rechannel.sinks.outlets import FileOutlet
from rechannel.sources.input_files.listing import bare, is_remote

PIECE_ROWS, PIECE_BYTES = 1024, 8 << 20
"""Of what is read at a time, about."""

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


def letters_in(sink: Sink, operator: str, first: int, last: int) -> Iterator[pa.RecordBatch]:
    """Yield the dead letters of an operator that a sink has published, with the columns of `WHOLE_LETTER`.

    Pieces are small, and each is read when it is asked for. first, last: timesteps.
    """
    read = _reads(sink)
    if read is None:
        raise RefusedError(f"sink {sink.name!r} cannot be read back")
    for piece in read(first, last):
        mine = pc.equal(piece.column("operator"), operator)
        at = piece.column("at_timestep").to_numpy()
        yield piece.filter(pc.and_(mine, pa.array((at >= first) & (at <= last))))


def _letters_of(node: Node) -> set[str]:
    """Return the operators whose dead letters are among the rows of a node, as they left."""
    if isinstance(node, Union):
        return {name for each in node.inputs for name in _letters_of(each)}
    return {str(node.upstream.name)} if isinstance(node, DeadLetters) else set()


def _reads(sink: Sink) -> Callable[[int, int], Iterator[pa.RecordBatch]] | None:
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


def _of_dataset(path: str, first: int, last: int) -> Iterator[pa.RecordBatch]:
    try:
        output = read_output(path)
    except NotReadyError:  # nothing was published yet
        return
    if "at_timestep" not in output.schema.names:
        msg = (
            f"the dead letters in {path} do not say of which timestep they are: write rc.dead_letters(...), which has"
            " the column at_timestep"
        )
        raise RefusedError(msg)
    for each in sorted(output.named, key=lambda each: each.first):
        data = pa.BufferReader(pa.py_buffer(output.store.read(each.key)))
        yield from (_whole(piece, 0) for piece in _of_parquet(data, first, last))


def _of_files(outlet: FileOutlet, first: int, last: int) -> Iterator[pa.RecordBatch]:
    root = Path(bare(outlet.path))
    folders = [(int(f.name.partition("=")[2]), f) for f in root.glob(f"{outlet.column}=*")]
    for timestep, folder in sorted(folders):
        if first <= timestep <= last:
            for file in sorted(folder.glob(_READ[outlet.format])):
                pieces = (
                    _of_parquet(file, first, last) if outlet.format == "parquet" else _of_json(file)
                )
                yield from (_whole(piece, timestep) for piece in pieces)


def _of_parquet(
    data: Path | pa.BufferReader, first: int, last: int
) -> Iterator[pa.RecordBatch | pa.Table]:
    """Yield the rows of a file, without row groups of other timesteps."""
    with pq.ParquetFile(data) as file:
        names = file.schema_arrow.names
        columns = [name for name in WHOLE_LETTER.names if name in names]
        for number in range(file.num_row_groups):
            group = file.metadata.row_group(number)
            if _may_have(group, first, last):
                apiece = PIECE_BYTES * group.num_rows // max(1, group.total_byte_size)
                rows = min(PIECE_ROWS, max(1, apiece))
                yield from file.iter_batches(
                    rows, row_groups=[number], columns=columns, use_threads=False
                )


def _may_have(group: pq.RowGroupMetaData, first: int, last: int) -> bool:
    """Return whether a row group may have rows of some timesteps."""
    for number in range(group.num_columns):
        column = group.column(number)
        if column.path_in_schema == "at_timestep":
            found = column.statistics
            return not (
                found is not None
                and found.has_min_max
                and not found.null_count
                and (found.max < first or found.min > last)
            )
    return True


def _of_json(file: Path) -> Iterator[pa.Table]:
    """Yield the rows of a file of JSON lines."""
    with file.open("rb") as lines:  # of bytes: only a line feed ends a record
        while some := lines.readlines(PIECE_BYTES):
            block = b"".join(some)
            if not block.strip():
                continue
            yield pj.read_json(
                pa.BufferReader(block),
                read_options=pj.ReadOptions(use_threads=False, block_size=len(block) + 1),
                parse_options=pj.ParseOptions(
                    explicit_schema=WHOLE_LETTER, unexpected_field_behavior="ignore"
                ),
            )


def _whole(rows: pa.RecordBatch | pa.Table, timestep: int) -> pa.RecordBatch:
    """Return dead letters with all columns. timestep: of those that do not say it."""
    names, count = rows.schema.names, rows.num_rows
    missing = [name for name in LETTER.names if name not in names]
    if missing:
        raise RefusedError(f"these are no dead letters: they have no column {missing[0]!r}")
    columns = [
        _one(rows.column(each.name)).cast(each.type)
        if each.name in names
        else pa.nulls(count, each.type)
        for each in WHOLE_LETTER
    ]
    at = WHOLE_LETTER.get_field_index("at_timestep")
    columns[at] = pc.fill_null(columns[at], timestep)
    return pa.RecordBatch.from_arrays(columns, schema=WHOLE_LETTER)


def _one(column: pa.Array | pa.ChunkedArray) -> pa.Array:
    if isinstance(column, pa.ChunkedArray):
        return pa.concat_arrays([pa.array([], column.type), *column.chunks])
    return column
