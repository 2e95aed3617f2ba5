"""NEXMark with rows that come too late: what is shown is the SQL over the others, and no row is lost."""

from collections import Counter
from random import Random

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest

import rechannel as rc
from benchmarks.nexmark.events import EVENTS, PER_EPOCH, Events
from benchmarks.nexmark.query import query
from benchmarks.nexmark.tables import generated
from rechannel.dataflow.evolution.evolution import stream_of
from rechannel.dataflow.streams.stream import dataflow_of
from rechannel.job import InProcess
from tests.spark.test_nexmark import COUNT, PATIENCE, PER_TIMESTEP, change, plain

EVENTS_LATE = Events(rate=1_000, jitter_ms=15_000)
DELAY_MS = 1_000
SECOND = 1_000_000
OPERATORS = {"q5": "counts", "q7": "highest", "q8": "new", "q11": "sessions"}
SPANS = {"q5": (10 * SECOND, 2 * SECOND), "q7": (10 * SECOND,) * 2, "q8": (10 * SECOND,) * 2}
"""Length of windows and the distance between them. Which rows of sessions are late is told by the sessions before."""


def rows_of(kind):
    """All rows of a kind, and their event times in microseconds."""
    rows = EVENTS_LATE.source(kind)(0, COUNT // EVENTS * PER_EPOCH[kind])
    return pa.Table.from_batches([rows]), np.asarray(rows["dateTime"].cast(pa.int64()))


def watermarks(kinds):
    """How far event time had come before every timestep: the least of the kinds."""
    come = []
    for kind in kinds:
        latest = rows_of(kind)[1].reshape(COUNT // PER_TIMESTEP, -1).max(axis=1)
        come.append(np.maximum.accumulate(latest) - DELAY_MS * 1_000)
    after = np.min(come, axis=0)
    return np.concatenate([[np.iinfo(np.int64).min], after[:-1]]), int(after[-1])


def late_of(asked, kind, before):
    """Which rows are late: those of which all windows were complete before their timestep."""
    size, every = SPANS[asked.name]
    times = rows_of(kind)[1]
    return times // every * every + size <= np.repeat(before, len(times) // len(before))


def run(asked, directory):
    """The query and its late rows, while it is changed."""
    tables = generated(EVENTS_LATE, count=COUNT, per_timestep=PER_TIMESTEP, delay_ms=DELAY_MS)
    shown = asked.build(tables)
    late = stream_of(dataflow_of(shown), OPERATORS[asked.name]).late
    ends = [shown.write.memory("out", name="out"), late.write.memory("late", name="late")]
    settings = rc.Settings(tasks=2, bins=8)
    job = rc.Job(asked.name, ends, state=directory, settings=settings)
    running, rng = job.start(in_process=InProcess()), Random(asked.name)
    try:
        for _ in range(6):
            change(running, rng)
        running.process_all_available(PATIENCE)
        assert running.status.timestep == COUNT // PER_TIMESTEP
        return running.memory("out"), running.memory("late")
    finally:
        running.stop(PATIENCE)


def texts(table):
    return [repr(row) for row in zip(*(column.to_pylist() for column in table), strict=True)]


def without(table, late):
    """Rows of a table but for the late ones, each of which has to be there."""
    left, mask = Counter(texts(late)), []
    for text in texts(table.select(late.column_names)):
        mask.append(left[text] <= 0)
        left[text] -= 1
    assert not +left
    return table.filter(pa.array(mask))


def expected(spark, asked, end, on_time):
    """Rows of the SQL over the rows that are not late."""
    for kind, rows in on_time.items():
        spark.createDataFrame(rows).createOrReplaceTempView(kind)
    sql = asked.sql.replace("{end}", str(end))
    if asked.name == "q5":  # a row that is late for some of its windows is in the others
        windows = "window(dateTime, '10 seconds', '2 seconds') AS w FROM bid GROUP BY 1, 3"
        assert windows in sql
        sql = sql.replace(
            windows,
            "w FROM (SELECT *, window(dateTime, '10 seconds', '2 seconds') AS w FROM bid)"
            " WHERE unix_micros(w.end) > before GROUP BY 1, 3",
        )
    return plain(spark.sql(sql).toArrow())


def side(name, kind, late):
    """The late rows of a kind, with columns that it has."""
    if name != "q8":
        return late
    which, columns = {
        "person": ("left", {"id": "id", "name": "name", "dateTime": "dateTime"}),
        "auction": ("right", {"seller": "id", "dateTime": "dateTime_right"}),
    }[kind]
    mine = late.filter(pc.equal(late["_side"], which))
    return mine.select(list(columns.values())).rename_columns(list(columns))


@pytest.mark.parametrize(
    "name",
    [n if n == "q5" else pytest.param(n, marks=pytest.mark.slow) for n in OPERATORS],
)
def test_late_rows_are_told_and_the_others_shown(spark, name, tmp_path):
    asked = query(name)
    shown, late = run(asked, tmp_path / "state")
    before, end = watermarks(asked.reads)
    on_time, told = {}, 0
    for kind in asked.reads:
        rows, mine = rows_of(kind)[0], side(name, kind, late)
        if name in SPANS:
            due = rows.filter(pa.array(late_of(asked, kind, before))).select(mine.column_names)
            assert Counter(texts(mine)) == Counter(texts(due))
        each = pa.array(np.repeat(before, len(rows) // len(before)))
        on_time[kind] = without(rows.append_column("before", each), mine)
        assert len(on_time[kind]) + len(mine) == len(rows)
        told += len(mine)
    assert told == len(late) > 20
    rows = expected(spark, asked, end, on_time)
    assert len(rows) >= 5
    assert plain(shown) == rows
