"""The dataflow of `recovery`: words counted, or lines found. Workers import this module, so it imports little."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

import rechannel as rc
from benchmarks.harness import Parameters
from benchmarks.line_source import WANTED, LineSource
from rechannel import aggregates as agg
from rechannel.dataflow.streams.stream import Stream


def words(rows: pa.RecordBatch) -> pa.RecordBatch:
    """The words of lines, one by one."""
    return pa.record_batch({"word": pc.list_flatten(pc.split_pattern(rows.column("line"), " "))})


def wanted(rows: pa.RecordBatch) -> pa.RecordBatch:
    """The lines that contain what is looked for."""
    return rows.filter(pc.match_substring(rows.column("line"), WANTED))


def flow(spark: Any, start_ns: int, parameters: Parameters) -> Stream:
    """The dataflow."""
    options = {name: parameters[name] for name in ("rate", "words", "partitions")}
    lines = rc.read(spark).python(
        LineSource, options={"start_ns": start_ns, **options}, name="lines"
    )
    if parameters["workload"] == "grep":
        return lines.map_batches(wanted, schema="line string", name="found")
    counted = lines.map_batches(words, schema="word string", name="words").key_by("word")
    return counted.aggregate(count=agg.count(), name="counts", tasks=parameters["tasks"])
