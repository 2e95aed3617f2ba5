"""Records that do not fit the columns: how Spark's readers are told to fail, and how the error names them."""

from __future__ import annotations

import pytest

import rechannel as rc
from rechannel.dataflow.graph.nodes import MapBatches, Source
from rechannel.errors import DataflowError, SourceError
from rechannel.model.ddl import schema_of
from rechannel.sources.finite import FiniteReader
from rechannel.sources.input_files.malformed import (
    COLUMN,
    line_of,
    parting,
    sentence,
    settled,
    with_text,
)
from rechannel.sources.reader import explained
from rechannel.sources.spark import malformed_file

COLUMNS = schema_of("n int")


@pytest.mark.parametrize("name", ["json", "csv", "xml"])
def test_a_record_that_does_not_fit_fails(name):
    assert settled(name, {}, COLUMNS) == {"mode": "FAILFAST"}
    assert settled(name, {"multiLine": "true"}, None) == {"mode": "FAILFAST"}


def test_what_the_program_says_goes_before_it():
    kept = schema_of("n int, _corrupt_record string")
    assert settled("json", {}, kept) == {"mode": "PERMISSIVE"}
    other = schema_of("n int, bad string")
    assert settled("json", {"columnNameOfCorruptRecord": "bad"}, other) == {"mode": "PERMISSIVE"}
    assert settled("json", {"columnnameofcorruptrecord": "bad"}, COLUMNS) == {"mode": "FAILFAST"}
    assert settled("csv", {"MODE": "DROPMALFORMED"}, COLUMNS) == {}
    assert settled("parquet", {}, COLUMNS) == {}


def test_records_that_are_parted_come_as_texts():
    assert parting({"Mode": "FAILFAST", "header": "true"}) == {
        "header": "true", "mode": "PERMISSIVE", "columnNameOfCorruptRecord": COLUMN,
    }  # fmt: skip
    assert with_text(COLUMNS).names == ["n", COLUMN]


def test_the_column_of_records_that_are_parted_is_no_one_elses():
    with pytest.raises(DataflowError, match=r"_malformed is Rechannel's own: name another"):
        rc.read().files(
            "/in", format="json", schema="n int", options={"ColumnNameOfCorruptRecord": COLUMN}
        )

    with pytest.raises(DataflowError, match=r"_malformed is Rechannel's own: read records"):
        rc.read().files("/in/*.json", schema=f"n int, {COLUMN} string", on_error="dead_letter")
    rc.read().files("/in/*.json", schema=f"n int, {COLUMN} string")


def test_the_line_is_that_of_the_whole_record(tmp_path):
    file = tmp_path / "a.json"
    file.write_bytes(b'{"n": 1, "m": 2}\n{"n": 1,\n \xff\n{"n": "x"}  \n')
    assert line_of(str(file), '{"n": 1,') == 2
    assert line_of(str(file), '{"n": "x"}') == 4
    assert line_of(str(file), '{"n": "y"}') is None
    assert line_of(str(tmp_path / "gone"), "x") is None


def test_one_sentence_says_where_what_and_what_to_do():
    told = sentence("/in/a.json", "json", '{"n": "x"}', 4)
    assert told.startswith("/in/a.json, line 4: not a json record")
    assert '\'{"n": "x"}\'' in told
    assert "on_error='dead_letter'" in told
    assert sentence("/in/a.json", "json", None, None).startswith("/in/a.json: not a json")


def test_the_file_of_a_malformed_record_is_found_in_what_spark_says():
    spark = (
        "[FAILED_READ_FILE.NO_HINT] Encountered error while reading file file:///in/a%20b.json.  SQLSTATE: KD001\n"
        "Caused by: [MALFORMED_RECORD_IN_PARSING.WITHOUT_SUGGESTION] Malformed records are detected"
    )
    assert malformed_file(RuntimeError(spark)) == "/in/a b.json"
    assert malformed_file(RuntimeError(spark.replace("MALFORMED", "OTHER"))) is None
    assert malformed_file(RuntimeError("MALFORMED_RECORD_IN_PARSING")) is None


def test_the_source_that_knows_tells():
    class Silent: ...

    class Knows:
        schema, native, repeats = COLUMNS, True, False

        def explain(self, error: BaseException) -> SourceError | None:
            return SourceError(f"told: {error}")

    error = ValueError("x")
    assert explained(error, []) is None
    assert explained(error, [Silent()]) is None
    assert str(explained(error, [Silent(), Knows()])) == "told: x"
    assert str(FiniteReader(Knows(), "in").explain(error)) == "told: x"


def test_dead_letters_of_a_source_are_parted_from_its_rows():
    read = rc.read().files("in/*.json", schema="n int", name="in", on_error="dead_letter")
    assert read.schema == COLUMNS
    assert isinstance(read.node, MapBatches)
    source = read.node.upstream
    assert isinstance(source, Source)
    assert (source.name, source.connector.options["mode"]) == ("in", "PERMISSIVE")
    assert source.connector.schema.names == ["n", COLUMN]
    assert read.dead_letters.schema.names == ["operator", "error", "row"]


@pytest.mark.parametrize(
    ("path", "options"),
    [("in/*.parquet", {"schema": "n int"}), ("in/*.json", {}), ("in/*.orc", {"schema": "n int"})],
)
def test_only_records_of_texts_with_known_columns_can_be_parted(path, options):
    with pytest.raises(DataflowError, match=r"json, csv, xml.*give schema="):
        rc.read().files(path, on_error="dead_letter", **options)
