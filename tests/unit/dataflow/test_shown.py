"""What streams and their ends show in a shell and in a notebook."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import rechannel as rc
from rechannel import aggregates as agg
from rechannel.testing import script

ORDERS = (
    rc.read()
    .memory("user STRING, price BIGINT, at TIMESTAMP", name="orders")
    .event_time("at", name="timed")
)
KEYED = ORDERS.key_by("user")
TOTALS = KEYED.aggregate(n=agg.count(), name="totals")
HOURLY = KEYED.window(rc.windows.tumbling("1 hour"))
FRAME = rc.frames.GroupFrame(
    keys=pa.record_batch({"user": ["ann"]}),
    rows=pa.record_batch({"price": [1, 2]}),
    sizes=pa.array([2]).to_numpy(),
)

SHOWN: list[tuple[Any, str]] = [
    (ORDERS, "<Stream 'timed': user string, price bigint, at timestamp>"),
    (TOTALS, "<Stream 'totals': user string, n bigint>"),
    (ORDERS.transform(lambda df: df, name="free"), "<Stream 'free': columns known to Spark alone>"),
    (KEYED, "<KeyedStream 'timed' by user>"),
    (HOURLY, "<WindowedStream 'timed' by user, tumbling(size='1 hour')>"),
    (ORDERS.cogroup(ORDERS, "user"), "<Cogrouped 'timed' and 'timed' by user>"),
    (TOTALS.write, "<Writer of 'totals': user string, n bigint>"),
    (TOTALS.write.parquet("out/n", name="n"), "<Flow 'n': parquet out/n>"),
    (rc.read(), "<Reader on the job's own Spark session>"),
    (script("a INT"), "<MemoryConnector: 0 batches of a int>"),
    (rc.windows.sliding("90 minutes", "1 second"), "sliding(size='90 minutes', every='1 second')"),
    (rc.windows.tumbling("2 days", "1 hour"), "tumbling(size='2 days', offset='1 hour')"),
    (rc.windows.sessions(5), "sessions(gap='5 milliseconds')"),
    (rc.windows.counting(10), "counting(size=10, every=10)"),
    (rc.windows.same_window(), "same_window()"),
    (rc.every("10 seconds"), "every('10 seconds')"),
    (FRAME, "<GroupFrame: 1 keys, 2 rows of price>"),
]


@pytest.mark.parametrize(("value", "text"), SHOWN)
def test_a_public_value_says_what_it_is(value: Any, text: str) -> None:
    assert repr(value) == text


@pytest.mark.parametrize("value", [ORDERS, KEYED, HOURLY, TOTALS.write.noop()])
def test_a_notebook_shows_the_dataflow(value: Any) -> None:
    html = value._repr_html_()
    assert html.startswith("<svg")
    assert "orders" in html


def test_a_job_shows_its_dataflow_and_a_running_one_its_status(tmp_path: Path) -> None:
    rows = script("user STRING, price BIGINT")
    totals = rc.read().memory(rows, name="orders").key_by("user").aggregate(n=agg.count(), name="n")
    job = rc.Job("clicks", totals.write.memory("out", name="out"), state=tmp_path / "state")
    assert repr(job) == "<Job 'clicks': 3 nodes, sinks ['out']>"
    assert job._repr_html_().startswith("<svg")
    assert repr(job.picture()) == str(job.picture())

    running = job.start(in_process=rc.InProcess())
    rows.push([{"user": "ann", "price": 1}])
    running.process_all_available(60)
    assert repr(running) == "<RunningJob 'clicks': running, timestep 1>"
    assert "JobStatus" in running._repr_html_()
    change = rc.changes.rescale("n", tasks=3)
    plan = running.plan(change)
    assert repr(plan).startswith("<Plan: rescale(operator='n', tasks=3) by all_at_once()")
    assert plan._repr_html_().startswith("<pre>rescale")
    assert "Stage n: aggregate by user (2 tasks" in running.explain()
    done = running.reconfigure(change).wait(60)
    assert repr(done) == "<Reconfiguration r1: rescale(operator='n', tasks=3), done>"
    assert "ReconfigurationSummary" in done._repr_html_()
    assert "Stage n: aggregate by user (3 tasks" in running.explain()
    assert running.reconfiguration("r1").phase == "done"
    running.stop(60)
    assert repr(running) == "<RunningJob 'clicks': stopped, timestep 1>"
