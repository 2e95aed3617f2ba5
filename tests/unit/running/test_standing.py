"""How a job stands: lag, event time, state, late rows and dead letters, in values and in text."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

import rechannel as rc
from rechannel import aggregates as agg
from rechannel.job import InProcess
from rechannel.testing import script

NOW_S = 1_700_000_000
COLUMNS = "auction STRING, at TIMESTAMP, price STRING"


@pytest.fixture
def clock():
    return [NOW_S * 1e3]


@pytest.fixture
def bids(tmp_path, clock):
    """A job with event time, rows that come late and rows that cannot be read, and its source."""
    rows = script(COLUMNS)
    read = rc.read().memory(rows, name="bids")
    columns = "auction STRING, at TIMESTAMP, price BIGINT"
    priced = read.map(whole, columns, on_error="dead_letter", name="priced")
    letters = priced.dead_letters.write.memory("letters", name="letters")
    counts = (
        priced.event_time("at", delay="2 seconds")
        .key_by("auction")
        .window(rc.windows.tumbling("10 seconds"))
        .aggregate(n=agg.count(), name="counts")
    )
    flow = [counts.write.memory("out", name="out"), letters]
    settings = rc.Settings(tasks=1, bins=4)
    job = rc.Job("bids", flow, state=tmp_path / "state", settings=settings)
    running = job.start(in_process=InProcess(), clock=lambda: clock[0])
    yield rows, running
    running.stop()


def whole(row):
    return row.auction, row.at, int(row.price)


def bid(second, price="1"):
    return {"auction": "a", "at": datetime.fromtimestamp(NOW_S + second, UTC), "price": price}


def test_nothing_is_known_before_the_first_timestep(bids):
    _, job = bids
    status = job.status
    assert status.lag["bids"].seconds is status.lag["bids"].rows is None
    assert status.operators["counts"].watermark_ms is None
    assert status.operators["counts"].state_rows is None
    assert status.committed_ms is None


def test_a_job_tells_event_time_state_and_what_it_has_lost(bids, clock):
    rows, job = bids
    rows.push([bid(0), bid(25), bid(26, "much")])
    job.process_all_available(60)
    rows.push([bid(1), bid(27)])
    job.process_all_available(60)
    clock[0] += 5_000
    status = job.status
    counts = status.operators["counts"]
    # The latest row was of second 27, less 2 seconds of delay; 5 seconds have passed since.
    assert counts.watermark_ms == (NOW_S + 25) * 1_000
    assert counts.event_time_lag_s == 5 - 25
    assert counts.rows_late == 1
    assert counts.state_rows >= 1
    assert counts.state_bytes > 0
    assert status.operators["bids"].rows_dead == 1
    assert status.operators["bids"].watermark_ms is None
    assert status.lag["bids"].rows == 0
    assert status.lag["bids"].seconds == 0.0
    assert rc.monitoring.JobStatus.from_dict(status.to_dict()) == status


def test_the_lag_is_that_of_each_timestep(tmp_path):
    rows = script(COLUMNS)
    for _ in range(3):
        rows.push([bid(0), bid(1)])
    counts = rc.read().memory(rows, name="bids").key_by("auction").aggregate(n=agg.count())
    job = rc.Job("bids", counts, state=tmp_path / "state").start(in_process=InProcess())
    job.process_all_available(60)
    lags = [progress.lag["bids"] for progress in job.recent_progress]
    job.stop()
    assert [lag.rows for lag in lags] == [4, 2, 0]
    size = lags[1].bytes
    assert [lag.bytes for lag in lags] == [2 * size, size, 0]
    assert size > 0
    assert [lag.at_least for lag in lags] == [True, True, False]


def test_the_text(bids, clock):
    rows, job = bids
    rows.push([bid(0), bid(25), bid(26, "much")])
    job.process_all_available(60)
    clock[0] += 27_000
    first, _, source, lag, _, operators, *each = str(job.status).splitlines()
    assert first == (
        "bids: running, timestep 1 committed at 2023-11-14T22:13:20.000Z, configuration"
        f" {job.status.configuration}"
    )
    assert source.split() == ["source", "unread", "rows", "unread", "bytes", "seconds", "waited"]
    assert lag.split() == ["bids", "0", "0", "bytes", "0.0"]
    assert operators.split()[:3] == ["operator", "tasks", "state"]
    [counts] = [line for line in each if line.startswith("counts")]
    assert counts.split()[-4:] == ["0", "0", "4.0", "s"]
    [read] = [line for line in each if line.startswith("bids")]
    assert read.split()[-3:] == ["0", "1", "-"]
