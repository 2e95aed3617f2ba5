"""Columns that differ in case only are refused wherever columns are made: they are one to Spark."""

from __future__ import annotations

import re

import pyarrow as pa
import pytest

import rechannel as rc
from rechannel import aggregates as agg
from rechannel.dataflow.checks.check import check
from rechannel.dataflow.streams.stream import dataflow_of
from rechannel.errors import DataflowError
from rechannel.testing import script


def rows(columns="k STRING, v BIGINT, at TIMESTAMP", name="rows"):
    return rc.read().memory(script(columns), name=name)


def timed(name="rows"):
    return rows(name=name).event_time("at")


MAKES = {
    "source": lambda: rows("k STRING, K BIGINT"),
    "source of an Arrow schema": lambda: rc.read().generator(
        lambda start, stop: None,
        schema=pa.schema([("a", pa.int64()), ("A", pa.int64())]),
        rows=1,
    ),
    "select": lambda: rows().select("v", V="k"),
    "made": lambda: rows().select("*", V=rc.computed(lambda v: v, "v")),
    "map": lambda: rows().map(lambda row: (1, 2), "n INT, N INT"),
    "map_batches": lambda: rows().map_batches(lambda batch: batch, "n INT, N INT"),
    "aggregate names": lambda: rows().key_by("k").aggregate({"N": agg.count(), "n": agg.sum("v")}),
    "aggregate and key": lambda: rows().key_by("k").aggregate(K=agg.count()),
    "track": lambda: rows().key_by("k").track(lambda *a: None, state="n INT, N INT"),
    "track and key": lambda: rows().key_by("k").track(lambda *a: None, state="K INT"),
    "windows": lambda: (
        timed().key_by("k").window(rc.windows.tumbling(1)).aggregate(Window_Start=agg.count())
    ),
    "top": lambda: rows().key_by("k").top(3, by="v", rank="V"),
    "running": lambda: rows().key_by("k").running(V=agg.lag("v")),
    "join": lambda: timed().join(
        rows("id STRING, V BIGINT, t TIMESTAMP", "others").event_time("t"),
        {"k": "id"},
        within=rc.between("-1 second", "1 second"),
    ),
}


@pytest.mark.parametrize("make", MAKES.values(), ids=MAKES)
def test_columns_that_differ_in_case_only_are_refused(make):
    with pytest.raises(DataflowError, match=re.compile("'(.*)' and '(.*)' differ in case only")):
        check(dataflow_of(make().write.noop()))


def test_values_and_other_names_may_differ_in_case():
    check(dataflow_of(rows("k STRING, kk STRING, K1 BIGINT").write.noop()))
