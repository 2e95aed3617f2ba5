"""Sources as values."""

from __future__ import annotations

import pickle
from typing import Any

import pyarrow as pa
import pytest

from rechannel.errors import DataflowError
from rechannel.sources.connectors import (
    FilesConnector,
    GeneratorConnector,
    MemoryConnector,
    PythonConnector,
    format_of,
)


def numbers(start: int, stop: int) -> pa.RecordBatch:
    return pa.RecordBatch.from_pydict({"n": range(start, stop)})


class Counter:
    """Looks like a Python data source."""

    def __init__(self, options: Any) -> None:
        self.options = options

    @classmethod
    def name(cls) -> str:
        return "counter"

    def streamReader(self, schema: Any) -> None:  # noqa: N802 - Spark's name
        raise NotImplementedError


@pytest.mark.parametrize(
    ("path", "kind"),
    [
        ("a/*.parquet", "parquet"),
        ("a.b/x.json.gz", "json"),
        ("x.JSONL", "json"),
        ("x.csv.zst", "csv"),
        ("x.txt", "text"),
        ("x.orc", "orc"),
        ("x.gz", None),
        ("dir.parquet/*", None),
        ("dir", None),
    ],
)
def test_the_suffix_tells_the_format(path: str, kind: str | None) -> None:
    assert format_of(path) == kind


def test_files() -> None:
    connector = FilesConnector(
        path="a/*.csv", format="csv", schema="n INT", per_timestep=2, options={"header": True}
    )

    assert connector.schema == pa.schema([("n", pa.int32())])
    assert connector.options == {"header": "true"}
    assert connector.describe() == "csv a/*.csv"
    assert FilesConnector(path="a", format="csv").schema is None


def test_a_generator() -> None:
    connector = GeneratorConnector(function=numbers, schema="n BIGINT", rows_per_second=1000)

    assert connector.describe() == "generator numbers 1000 rows/s"
    assert connector.schema.names == ["n"]


def test_a_python_data_source() -> None:
    assert PythonConnector(source=Counter, options={"n": 3}).options == {"n": "3"}
    assert PythonConnector(source=Counter).describe() == "python counter"
    assert PythonConnector(source=Counter({})).kind == "counter"
    assert PythonConnector(source=Counter, schema="n INT").schema.names == ["n"]


def test_memory() -> None:
    connector = MemoryConnector(schema="n INT", partitions=3)

    assert connector.describe() == "memory"
    assert connector.partitions == 3


def test_connectors_can_be_sent_to_workers() -> None:
    connector = FilesConnector(path="a", format="csv", options={"header": "true"})

    assert pickle.loads(pickle.dumps(connector)).options == {"header": "true"}


@pytest.mark.parametrize(
    ("make", "part"),
    [
        (lambda: FilesConnector(path="a", format="csv", per_timestep=0), "per_timestep"),
        (lambda: FilesConnector(path="a", format="csv", schema="n"), "a type for column 'n'"),
        (
            lambda: GeneratorConnector(function=numbers, schema="n INT"),
            "needs a bound per timestep",
        ),
        (
            lambda: GeneratorConnector(function=5, schema="n INT", per_timestep=1),
            "needs a function",
        ),
        (
            lambda: GeneratorConnector(function=numbers, schema="n INT", rows_per_second=0),
            "rows_per_second must be positive",
        ),
        (
            lambda: GeneratorConnector(
                function=numbers, schema="n INT", per_timestep=1, partitions=0
            ),
            "partitions",
        ),
        (lambda: PythonConnector(source=dict), "not a Python data source"),
        (lambda: PythonConnector(source=Counter({}), options={"a": 1}), "already has its options"),
        (lambda: MemoryConnector(schema="n INT", partitions=0), "partitions"),
    ],
)
def test_what_cannot_be_is_refused(make: Any, part: str) -> None:
    with pytest.raises(DataflowError, match=part):
        make()
