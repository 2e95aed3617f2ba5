from __future__ import annotations

import re
import time
from datetime import UTC, datetime

import pytest
from prometheus_client.parser import text_string_to_metric_families

import rechannel as rc
from rechannel import aggregates as agg
from tests.support.asking import get

NAME = re.compile(r"rechannel(_[a-z]+)+")
NOT_BASE = {
    "milliseconds",
    "ms",
    "minutes",
    "hours",
    "kilobytes",
    "kib",
    "megabytes",
    "mb",
    "percent",
}


def families(server):
    """Read by Prometheus' own parser."""
    answer = get(server, "/metrics")
    assert answer.headers["content-type"].startswith("text/plain")
    return list(text_string_to_metric_families(answer.text))


def scrape(server):
    """(name, labels but the job's) -> value."""
    return {
        (sample.name, *(pair for pair in sorted(sample.labels.items()) if pair[0] != "job_name")): (
            sample.value
        )
        for family in families(server)
        for sample in family.samples
    }


def test_what_happens_is_counted_over_all_timesteps(clicks, server):
    clicks.push([("ann", 1), ("bob", 2), ("cleo", 3)])
    clicks.push([("ann", 4)])
    figures = scrape(server)
    progress = clicks.running.recent_progress
    assert [facts.rows_in for facts in progress] == [2, 3, 1]
    assert figures["rechannel_timesteps_committed_total",] == 3
    assert figures["rechannel_timesteps_failed_total",] == 0
    assert figures["rechannel_rows_in_total",] == 6
    assert figures["rechannel_rows_out_total",] == sum(facts.rows_out for facts in progress)
    for operator in ("clicks", "users", "totals"):
        for figure, name in (("rows_in", "rows_in"), ("bytes_in", "received_bytes")):
            total = sum(getattr(facts.operators[operator], figure) for facts in progress)
            assert figures[f"rechannel_operator_{name}_total", ("operator", operator)] == total
    spent = sum(
        value
        for (name, *labels), value in figures.items()
        if name == "rechannel_operator_task_seconds_total" and ("operator", "users") in labels
    )
    told = sum(sum(facts.operators["users"].ms.values()) for facts in progress)
    assert spent == pytest.approx(told / 1e3, abs=1e-4)


def test_durations_are_histograms(clicks, server):
    clicks.push([("ann", 1)])
    figures = scrape(server)
    for name, *labels in (
        ("rechannel_timestep_duration_seconds",),
        ("rechannel_sink_publish_duration_seconds", ("sink", "out")),
    ):
        buckets = [
            (float(dict(rest)["le"]), value)
            for (found, *rest), value in figures.items()
            if found == f"{name}_bucket" and set(labels) <= set(rest)
        ]
        assert [end for end, _ in buckets] == sorted(end for end, _ in buckets)
        assert [count for _, count in buckets] == sorted(count for _, count in buckets)
        assert buckets[-1] == (float("inf"), 2)
        assert figures[f"{name}_count", *labels] == 2
        assert figures[f"{name}_sum", *labels] >= 0
    seconds = sum(facts.duration_ms for facts in clicks.running.recent_progress) / 1e3
    assert figures["rechannel_timestep_duration_seconds_sum",] == pytest.approx(seconds, abs=1e-2)


def test_how_things_are_is_a_gauge(clicks, server):
    clicks.push([("ann", 1), ("bob", 2), ("cleo", 3)])
    figures = scrape(server)
    last = clicks.running.last_progress.operators["users"]
    users = ("operator", "users")
    assert figures["rechannel_job_active",] == 1
    assert figures["rechannel_timestep",] == 2
    assert figures["rechannel_trouble", ("of", "lease")] == 0
    assert figures["rechannel_retries_total",] == 0
    assert figures["rechannel_configuration_version",] == clicks.running.configuration.version
    assert figures["rechannel_operator_tasks", users] == 2
    assert figures["rechannel_operator_bins", users] == 256
    assert figures["rechannel_operator_state_rows", users] == last.state_rows
    assert figures["rechannel_operator_state_bytes", users] == last.state_bytes > 0
    assert ("rechannel_operator_bins", ("operator", "clicks")) not in figures
    clicks_, out = ("source", "clicks"), ("sink", "out")
    assert figures["rechannel_source_backlog_rows", clicks_] == 0
    assert figures["rechannel_source_lag_bytes", clicks_] == 0
    assert figures["rechannel_source_lag_seconds", clicks_] == 0
    for figure in ("rows", "bytes", "seconds"):
        assert figures["rechannel_source_lag_known", ("figure", figure), clicks_] == 1
    assert figures["rechannel_sink_unpublished_timesteps", out] == 0
    assert figures["rechannel_sink_quarantined", out] == 0
    committed = clicks.running.last_progress.committed_ms / 1e3
    assert figures["rechannel_timestep_committed_timestamp_seconds",] == committed
    assert not any("watermark" in name or "event_time" in name for name, *_ in figures)


def test_event_time_and_what_a_source_cannot_tell(tmp_path, monkeypatch):
    """Of a source that counts nothing there is no figure, and a sample says so."""
    from rechannel.job import InProcess
    from rechannel.sources.memory import MemoryReader
    from rechannel.testing import script

    monkeypatch.setattr(MemoryReader, "backlog", lambda self, end, stream_ms: None)
    bids = script("item STRING, at TIMESTAMP")
    counts = (
        rc.read()
        .memory(bids, name="bids")
        .event_time("at")
        .key_by("item")
        .window(rc.windows.tumbling("10 seconds"))
        .aggregate(n=agg.count(), name="counts")
    )
    at = datetime(2026, 1, 31, 12, tzinfo=UTC)
    job = rc.Job("bids", counts, state=tmp_path / "state").start(
        in_process=InProcess(), clock=lambda: at.timestamp() * 1e3 + 90_000
    )
    with job.serve(port=0) as server:
        bids.push([{"item": "a", "at": at}])
        job.process_all_available(60)
        figures = scrape(server)
    job.stop()
    source, operator = ("source", "bids"), ("operator", "counts")
    for figure in ("rows", "bytes", "seconds"):
        assert figures["rechannel_source_lag_known", ("figure", figure), source] == 0
    for name in ("backlog_rows", "lag_bytes", "lag_seconds"):
        assert (f"rechannel_source_{name}", source) not in figures
    watermark = figures["rechannel_operator_watermark_timestamp_seconds", operator]
    assert watermark == at.timestamp()
    assert figures["rechannel_operator_event_time_lag_seconds", operator] == 90


def test_open_reconfigurations_are_counted(clicks, server):
    assert scrape(server)["rechannel_reconfigurations_open",] == 0
    clicks.running.reconfigure(rc.changes.rescale("users", tasks=3), at=1000)
    figures = scrape(server)
    assert figures["rechannel_reconfigurations_open",] == 1
    assert figures["rechannel_reconfiguration_bins_moved", ("id", "r1")] == 0
    assert figures["rechannel_reconfiguration_bins_left", ("id", "r1")] == 0


class Showing(rc.control.Controller):
    """Shows figures, and then fails."""

    def on_init(self):
        return 0

    def on_begin(self, control):
        if control.state == 1:
            control.metric("lost", 1)
            raise LookupError("the second time")
        control.state = 1
        control.metric("f1", 0.5)
        control.metric("lag_ms", 12, operator="users")
        control.metric("lag_ms", 13, operator="totals")


def until(server, *sample, value):
    """All figures, once one of them has a value."""
    deadline = time.monotonic() + 60
    while (figures := scrape(server)).get(sample) != value:
        assert time.monotonic() < deadline, figures.get(sample)
        time.sleep(0.005)
    return figures


def test_controllers_are_counted_and_show_figures_of_their_own(clicks, server):
    assert not any("controller" in name for name, *_ in scrape(server))
    handle = clicks.running.control(rc.control.install(Showing(), failures=1))
    label = ("controller", "showing")
    f1 = ("rechannel_controller_value", label, ("name", "f1"), ("operator", ""))
    assert scrape(server)["rechannel_controller_active", label] == 1
    handle.trigger()
    figures = until(server, *f1, value=0.5)
    for operator, value in (("users", 12), ("totals", 13)):
        sample = (label, ("name", "lag_ms"), ("operator", operator))
        assert figures["rechannel_controller_value", *sample] == value
    assert figures["rechannel_controller_suspended", label] == 0
    handle.trigger()
    figures = until(server, "rechannel_controller_suspended", label, value=1)
    assert figures["rechannel_controller_active", label] == 0
    assert figures["rechannel_controller_failures_total", label] == 1
    assert figures["rechannel_controller_operations_total", label] == 0
    assert figures["rechannel_controller_requests_total", label] == 0
    assert figures[f1] == 0.5
    assert not any(("name", "lost") in labels for _, *labels in figures)


def test_names_are_as_prometheus_wants_them(clicks, server):
    """The rules of `promtool check metrics`, and of its page on naming."""
    clicks.running.control(Showing())
    clicks.running.reconfigure(rc.changes.set_interval(5), at=1000)
    found = families(server)
    assert len({family.name for family in found}) == len(found)
    for family in found:
        words = set(family.name.split("_"))
        assert NAME.fullmatch(family.name), family
        assert family.documentation.strip(), family
        assert family.documentation != family.name
        assert family.type in {"counter", "gauge", "histogram"}
        assert not words & {"counter", "gauge", "histogram", "summary", "metric"}
        assert not words & NOT_BASE
        assert not family.name.endswith(("_total", "_count", "_sum", "_bucket", "_info"))
        if family.type == "histogram":
            assert family.name.endswith("_seconds")
        for unit in {"seconds", "bytes"} & words:
            assert family.name.endswith(f"_{unit}")
        for sample in family.samples:
            assert sample.labels["job_name"] == "clicks"
            assert not sample.labels.keys() & {"job", "instance"}
            if family.type == "counter":
                assert sample.name == f"{family.name}_total"
    assert {family.type for family in found} == {"counter", "gauge", "histogram"}


def test_odd_names_are_escaped(tmp_path):
    from rechannel.job import InProcess
    from rechannel.testing import script

    words = script("word string", [[{"word": "a"}]])
    flow = rc.read().memory(words).key_by("word").aggregate(n=agg.count(), name="count")
    job = rc.Job('a "job"\\\n', flow, state=tmp_path / "state").start(in_process=InProcess())
    with job.serve(port=0) as server:
        job.process_all_available(60)
        names = {s.labels["job_name"] for f in families(server) for s in f.samples}
        assert names == {'a "job"\\\n'}
    job.stop()
