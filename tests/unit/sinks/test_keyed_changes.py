"""What changes of a table do to a place that has one row per key."""

from __future__ import annotations

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import rechannel as rc
from rechannel import aggregates as agg
from rechannel.dataflow.checks.check import check
from rechannel.dataflow.streams.stream import dataflow_of
from rechannel.errors import DataflowError, RefusedError
from rechannel.model.changelog import DELETE, INSERT, KINDS, UPDATE_AFTER, UPDATE_BEFORE
from rechannel.sinks.keyed_changes import check_changes, check_keyed, net, without_changes
from rechannel.testing import Harness, script

SCHEMA = pa.schema([("k", pa.int64()), ("n", pa.int64()), ("change", pa.string())])


def table(*rows):
    columns = zip(*rows, strict=True) if rows else ([], [], [])
    return pa.table(
        [pa.array(c, f.type) for c, f in zip(columns, SCHEMA, strict=True)], schema=SCHEMA
    )


def applied(place, rows):
    """A dict after changes."""
    made = net(rows, ("k",), "change", "there")
    assert made.present.schema.names == made.gone.schema.names == ["k", "n"]
    gone = made.gone["k"].to_pylist()
    assert not set(gone) & set(made.present["k"].to_pylist())
    assert len(set(gone)) == len(gone)
    kept = {k: n for k, n in place.items() if k not in gone}
    return kept | {row["k"]: row["n"] for row in made.present.to_pylist()}


STATES = st.dictionaries(st.integers(0, 4), st.integers(0, 2))


@given(STATES, STATES, st.randoms(use_true_random=False), st.booleans())
def test_changes_lead_from_one_table_to_the_other_in_any_order(old, new, choose, before):
    rows = []
    for key in old | new:
        if key not in old:
            rows.append((key, new[key], INSERT))
        elif key not in new:
            rows.append((key, old[key], DELETE))
        elif old[key] != new[key]:
            rows += [(key, old[key], UPDATE_BEFORE)] * before + [(key, new[key], UPDATE_AFTER)]
    choose.shuffle(rows)
    assert applied(old, table(*rows)) == new


def test_a_row_that_gets_another_key_leaves_none_behind():
    # Rows change places: what is gone under one key is there under the other one.
    rows = table(
        (1, 7, UPDATE_BEFORE), (2, 7, UPDATE_AFTER), (2, 8, UPDATE_BEFORE), (1, 8, UPDATE_AFTER)
    )
    assert applied({1: 7, 2: 8}, rows) == {1: 8, 2: 7}
    assert applied({1: 7}, table((1, 7, UPDATE_BEFORE), (3, 7, UPDATE_AFTER))) == {3: 7}


def test_a_filter_may_drop_either_row_of_an_update():
    assert applied({1: 7}, table((1, 7, UPDATE_BEFORE))) == {}
    assert applied({}, table((1, 8, UPDATE_AFTER))) == {1: 8}


@pytest.mark.parametrize("word", ["upsert", None, ""])
def test_other_words_are_refused(word):
    with pytest.raises(RefusedError, match=r"there takes changes, and column 'change' of a row is"):
        net(table((1, 1, INSERT), (2, 2, word)), ("k",), "change", "there")


def test_the_column_of_changes_is_checked():
    check_changes("", (), SCHEMA, "out")
    check_changes("change", ("k",), SCHEMA, "out")
    assert without_changes(SCHEMA, "change").names == ["k", "n"]
    assert without_changes(None, "change") is None
    with pytest.raises(DataflowError, match="changes='op' is no column of the rows"):
        check_changes("op", ("k",), SCHEMA, "out")
    with pytest.raises(DataflowError, match="changes='change' is a key"):
        check_changes("change", ("change",), SCHEMA, "out")
    with pytest.raises(DataflowError, match="column 'n' is int64, and a changelog's is a string"):
        check_changes("n", ("k",), SCHEMA, "out")
    with pytest.raises(DataflowError, match=r"write\.delta: changes='change' .* with keys="):
        check_keyed("write.delta", "change", ())


def counts():
    rows = script("k BIGINT", [[{"k": 1}]])
    return rc.read().memory(rows, name="rows").key_by("k").aggregate(n=agg.count(), name="counts")


WRITERS = {
    "delta": lambda stream, **more: stream.write.delta("t", **more),
    "iceberg": lambda stream, **more: stream.write.iceberg("a.t", **more),
    "postgres": lambda stream, **more: stream.write.postgres("postgresql://h/d", "t", **more),
}


@pytest.mark.parametrize("write", WRITERS.values(), ids=WRITERS)
def test_a_sink_does_not_take_changes_for_rows(write):
    log = counts().changelog()
    check(dataflow_of(write(log)))
    check(dataflow_of(write(log, keys="k", changes="change")))
    check(dataflow_of(write(log.select("k", "n"), keys="k")))
    check(dataflow_of(write(counts(), keys="k")))
    for stream in (log, log.filter("n > 1"), log.map_batches(lambda b: b), log.union(log)):
        with pytest.raises(DataflowError, match=r"sink .* Give the sink changes='change'"):
            check(dataflow_of(write(stream, keys="k")))
    assert (
        write(log, keys="k", changes="change").node.outlet.describe().endswith("changes in change")
    )
    with pytest.raises(DataflowError, match="name these with keys="):
        write(log, changes="change")


def test_kafka_needs_a_key_for_changes():
    log = counts().changelog()
    check(dataflow_of(log.write.kafka("h:9", "t", key="k")))
    with pytest.raises(DataflowError, match="name these with key="):
        log.write.kafka("h:9", "t", changes="change")


def test_words_are_those_of_the_changelog():
    harness = Harness(counts().changelog().write.memory("log"))
    harness.start().run()
    assert set(harness.output()["change"].to_pylist()) <= set(KINDS)
