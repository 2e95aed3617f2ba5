"""A job exports to providers of OpenTelemetry: in memory, broken, slow."""

from __future__ import annotations

import logging
import threading
import time
from types import SimpleNamespace

import pytest
from opentelemetry.sdk.metrics import MeterProvider, ObservableCounter
from opentelemetry.sdk.metrics.export import AggregationTemporality, InMemoryMetricReader
from opentelemetry.sdk.trace import SpanProcessor, TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor, SimpleSpanProcessor, SpanExporter
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import StatusCode

import rechannel as rc
from rechannel import aggregates as agg
from rechannel.metrics.registry import DURATIONS, METRICS
from rechannel.running.seen import seen_of
from rechannel.testing import script

SECONDS = 60.0


def until(holds):
    """Wait until something holds."""
    deadline = time.monotonic() + SECONDS
    while not holds():
        assert time.monotonic() < deadline
        time.sleep(0.005)


@pytest.fixture
def start(tmp_path):
    """Starts a job of a name, or starts it again: its handle, and what pushes rows."""
    started, inputs = [], {}

    def make(name="shop", to=None):
        rows = inputs.setdefault(name, script("k STRING"))
        flow = (
            rc.read()
            .memory(rows, name="rows")
            .key_by("k")
            .aggregate(n=agg.count(), name="counts")
            .write.memory("out", name="out")
        )
        job = rc.Job(
            name, flow, state=tmp_path / name, settings=rc.Settings(tasks=2, bins=8)
        ).start(in_process=rc.InProcess())
        started.append(job)

        def push(*keys):
            rows.push([{"k": key} for key in keys])
            job.process_all_available(SECONDS)

        exporting = None if to is None else job.export(to)
        return SimpleNamespace(job=job, push=push, exporting=exporting)

    yield make
    for job in started:
        if job.is_active:
            job.stop(SECONDS)


@pytest.fixture
def kept():
    """Providers that keep everything in memory."""
    spans, reader = InMemorySpanExporter(), InMemoryMetricReader()
    tracers, meters = TracerProvider(shutdown_on_exit=False), MeterProvider([reader])
    tracers.add_span_processor(SimpleSpanProcessor(spans))
    yield SimpleNamespace(
        spans=spans, reader=reader, to={"tracer_provider": tracers, "meter_provider": meters}
    )
    meters.shutdown()


def ended(made):
    made.job.stop(SECONDS)
    assert made.exporting.join(SECONDS)


def tree(spans):
    """(name, name of the parent), in the order in which they ended."""
    names = {span.context.span_id: span.name for span in spans}
    return [(span.name, span.parent and names[span.parent.span_id]) for span in spans]


def test_timesteps_are_traces(start, kept):
    made = start(to=rc.OpenTelemetry(**kept.to))
    made.push("a", "b")
    made.push("a")
    ended(made)
    spans = kept.spans.get_finished_spans()
    one = [
        ("timestep", None),
        ("plan", "timestep"),
        ("run", "timestep"),
        ("operator rows", "run"),
        ("task", "operator rows"),
        ("operator counts", "run"),
        ("task", "operator counts"),
        ("commit", "timestep"),
        ("release", "timestep"),
        ("publish out", "timestep"),
    ]
    assert tree(spans) == one + one
    traces = [span.context.trace_id for span in spans]
    assert traces == [traces[0]] * 10 + [traces[10]] * 10
    assert traces[0] != traces[10]
    first = {span.name: span for span in spans[:10]}
    progress = made.job.recent_progress[0]
    root, run = first["timestep"], first["run"]
    assert dict(root.attributes) == {
        "rechannel.job.name": "shop",
        "rechannel.timestep.number": 1,
        "rechannel.configuration.version": progress.configuration,
        "rechannel.rows.in": 2,
        "rechannel.rows.out": 2,
    }
    assert root.instrumentation_scope.name == "rechannel"
    assert root.end_time == progress.committed_ms * 1_000_000
    assert first["operator counts"].attributes["rechannel.operator.state.rows"] == 2
    (link,) = first["operator counts"].links
    assert link.context.span_id == first["operator rows"].context.span_id
    assert link.attributes["rechannel.exchange.rows"] == 2
    assert root.start_time == first["plan"].start_time
    assert first["plan"].end_time == run.start_time
    assert run.end_time == first["commit"].start_time
    assert abs(first["commit"].end_time - root.end_time) <= 1_000  # phases are rounded apart
    for inner in ("operator rows", "operator counts"):
        assert run.start_time <= first[inner].start_time
        assert first[inner].start_time <= first[inner].end_time <= run.end_time
    assert all(span.status.status_code is StatusCode.UNSET for span in spans)
    assert made.job.status.troubles == {}


def test_a_reconfiguration_is_a_trace_with_its_phases_linked_to_its_timestep(start, kept):
    made = start(to=rc.OpenTelemetry(metrics=False, **kept.to))
    made.push("a")
    change = made.job.reconfigure(rc.changes.rescale("counts", tasks=3), at=3)
    until(lambda: change.phase == "ready")
    made.push("b")
    made.push("c")
    change.wait(SECONDS)
    ended(made)
    spans = kept.spans.get_finished_spans()
    (root,) = [span for span in spans if span.name == "reconfiguration"]
    phases = [s for s in spans if s.parent and s.parent.span_id == root.context.span_id]
    assert [span.name for span in phases] == ["prepare", "synchronize", "update"]
    assert [span.start_time for span in phases[1:]] == [span.end_time for span in phases[:-1]]
    assert phases[0].start_time == root.start_time
    assert phases[-1].end_time == root.end_time
    assert root.attributes["rechannel.reconfiguration.id"] == "r1"
    assert root.attributes["rechannel.reconfiguration.phase"] == "done"
    timesteps = {
        span.attributes["rechannel.timestep.number"]: span.context.span_id
        for span in spans
        if span.name == "timestep"
    }
    assert [link.context.span_id for link in root.links] == [timesteps[3]]


def numbers(reader):
    """By name and attributes: the number, or count and sum."""
    (resource,) = reader.get_metrics_data().resource_metrics
    (scope,) = resource.scope_metrics
    return {
        (metric.name, frozenset(point.attributes.items())): (
            (point.count, point.sum) if hasattr(point, "count") else point.value
        )
        for metric in scope.metrics
        for point in metric.data.data_points
    }


def test_metrics_are_those_of_prometheus(start, kept):
    made = start(to=rc.OpenTelemetry(traces=False, **kept.to))
    made.push("a", "b")
    made.push("a")
    made.job.reconfigure(rc.changes.rescale("counts", tasks=3), at=1000)
    ended(made)
    seen, told = seen_of(made.job), numbers(kept.reader)
    wanted = {
        (metric.name, frozenset(metric.attributes("shop", labels).items())): number
        for metric in METRICS
        for labels, number in metric.read(seen)
    }
    for durations in DURATIONS:
        for labels, histogram in durations.read(seen.sums):
            key = durations.name, frozenset(durations.attributes("shop", labels).items())
            wanted[key] = (sum(histogram.counts), pytest.approx(histogram.total))
    assert told.keys() == wanted.keys()
    moving = {"rechannel.source.lag.time"}  # grows with the clock
    assert {k: n for k, n in told.items() if k[0] not in moving} == {
        k: n for k, n in wanted.items() if k[0] not in moving
    }
    shop = frozenset({"rechannel.job.name": "shop"}.items())
    assert told["rechannel.job.active", shop] == 0
    assert told["rechannel.timesteps.committed", shop] == 2
    assert told["rechannel.rows.in", shop] == 3
    assert told["rechannel.reconfigurations.open", shop] == 1
    assert told["rechannel.timestep.duration", shop][0] == 2


def test_two_jobs_share_the_instruments_of_a_provider(start, kept, caplog):
    to = rc.OpenTelemetry(traces=False, **kept.to)
    one, other = start("one", to), start("other", to)
    one.push("a")
    other.push("a")
    other.push("b")
    found = {
        dict(attributes)["rechannel.job.name"]: number
        for (name, attributes), number in numbers(kept.reader).items()
        if name == "rechannel.timestep.number"
    }
    assert found == {"one": 1, "other": 2}
    other.exporting.close()
    assert other.exporting.join(SECONDS)
    left = {dict(of)["rechannel.job.name"] for name, of in numbers(kept.reader) if "number" in name}
    assert left == {"one"}
    assert [
        record for record in caplog.records if "has been created already" in record.message
    ] == []


SHOP = frozenset({"rechannel.job.name": "shop"}.items())
ROWS_IN = "rechannel.rows.in", SHOP
SECONDS_OF = "rechannel.timestep.duration", SHOP


def test_a_job_that_starts_again_in_the_process_goes_on_counting(start, kept):
    to = rc.OpenTelemetry(traces=False, **kept.to)
    first = start(to=to)
    first.push("a", "b", "c")
    ended(first)
    assert numbers(kept.reader)[ROWS_IN] == 3
    second = start(to=to)
    assert numbers(kept.reader)[ROWS_IN] == 3
    second.push("a")
    ended(second)
    told = numbers(kept.reader)
    assert told[ROWS_IN] == 4
    assert told["rechannel.timesteps.committed", SHOP] == 2
    assert told[SECONDS_OF][0] == 2


def test_counters_of_readers_that_want_differences_never_fall(start):
    reader = InMemoryMetricReader(
        preferred_temporality={ObservableCounter: AggregationTemporality.DELTA}
    )
    meters = MeterProvider([reader])
    to = rc.OpenTelemetry(traces=False, meter_provider=meters)
    added = []
    for keys in ("abc", "a"):
        made = start(to=to)
        made.push(*keys)
        ended(made)
        added.append(numbers(reader)[ROWS_IN])
    meters.shutdown()
    assert added == [3, 1]


def test_a_run_that_is_exported_twice_is_counted_once(start, kept):
    to = rc.OpenTelemetry(traces=False, **kept.to)
    made = start(to=to)
    made.push("a")
    until(lambda: numbers(kept.reader).get(SECONDS_OF, (0,))[0] == 1)
    again = made.job.export(to)
    made.push("b")
    ended(made)
    assert again.join(SECONDS)
    told = numbers(kept.reader)
    assert told[ROWS_IN] == 2
    assert told[SECONDS_OF][0] == 2


def test_what_was_before_the_export_is_not_counted(start, kept):
    made = start()
    made.push("a", "b")
    exporting = made.job.export(rc.OpenTelemetry(traces=False, **kept.to))
    made.push("c")
    made.job.stop(SECONDS)
    assert exporting.join(SECONDS)
    told = numbers(kept.reader)
    assert told[ROWS_IN] == 1
    assert told["rechannel.timestep.number", SHOP] == 2


class Refusing(SpanProcessor):
    """Raises."""

    def on_end(self, span):
        raise OSError("the collector is gone")


def test_a_processor_that_raises_is_a_trouble_and_the_stream_goes_on(start):
    tracers = TracerProvider(shutdown_on_exit=False)
    tracers.add_span_processor(Refusing())
    made = start(to=rc.OpenTelemetry(tracer_provider=tracers, metrics=False))
    made.push("a")
    until(lambda: "opentelemetry" in made.job.status.troubles)
    assert "the collector is gone" in made.job.status.troubles["opentelemetry"]
    made.push("b")
    assert made.job.status.timestep == 2
    ended(made)


class Unreachable(SpanExporter):
    """Fails as exporters do: the SDK logs it."""

    def export(self, spans):
        raise ConnectionError("nobody answers at collector:4317")


def test_an_exporter_that_fails_is_a_trouble_though_the_sdk_swallows_it(start):
    tracers = TracerProvider(shutdown_on_exit=False)
    tracers.add_span_processor(SimpleSpanProcessor(Unreachable()))
    made = start(to=rc.OpenTelemetry(tracer_provider=tracers, metrics=False))
    made.push("a")
    until(lambda: "opentelemetry" in made.job.status.troubles)
    assert "nobody answers at collector:4317" in made.job.status.troubles["opentelemetry"]
    ended(made)
    assert made.job.status.message == "stopped"
    for name in ("opentelemetry.sdk", "opentelemetry.exporter"):
        assert logging.getLogger(name).handlers == []


class Recovering(SpanExporter):
    """Fails as long as it is told to."""

    def __init__(self):
        self.fails = True

    def export(self, spans):
        if self.fails:
            raise ConnectionError("nobody answers")


def test_the_trouble_is_over_with_the_next_span_that_is_exported(start):
    exporter, tracers = Recovering(), TracerProvider(shutdown_on_exit=False)
    tracers.add_span_processor(SimpleSpanProcessor(exporter))
    made = start(to=rc.OpenTelemetry(tracer_provider=tracers, metrics=False))
    made.push("a")
    until(lambda: "opentelemetry" in made.job.status.troubles)
    exporter.fails = False
    made.push("b")
    until(lambda: "opentelemetry" not in made.job.status.troubles)


def test_the_trouble_of_a_thread_of_the_sdk_is_over_though_the_stream_is_idle(start, monkeypatch):
    exporter, tracers = Recovering(), TracerProvider(shutdown_on_exit=False)
    tracers.add_span_processor(BatchSpanProcessor(exporter))
    made = start(to=rc.OpenTelemetry(tracer_provider=tracers, metrics=False))
    made.push("a")
    until(lambda: tracers.force_flush() and "opentelemetry" in made.job.status.troubles)
    monkeypatch.setattr("rechannel.exporting.health.QUIET_SECONDS", 0.0)
    until(lambda: "opentelemetry" not in made.job.status.troubles)
    tracers.shutdown()


class Hanging(SpanExporter):
    """Exports nothing until it is let go."""

    def __init__(self):
        self.began, self.go, self.spans = threading.Event(), threading.Event(), []

    def export(self, spans):
        self.began.set()
        self.go.wait(SECONDS)
        self.spans.extend(spans)


def test_an_exporter_that_hangs_holds_up_nothing_and_what_is_lost_is_told(start, monkeypatch):
    monkeypatch.setattr("rechannel.telemetry.feed.Feed.__init__.__defaults__", (12,))
    hanging, tracers = Hanging(), TracerProvider(shutdown_on_exit=False)
    tracers.add_span_processor(SimpleSpanProcessor(hanging))
    made = start(to=rc.OpenTelemetry(tracer_provider=tracers, metrics=False))
    made.push("a")
    assert hanging.began.wait(SECONDS)
    for key in "bcdefg":
        made.push(key)
    assert made.job.status.timestep == 7
    hanging.go.set()
    until(lambda: "opentelemetry" in made.job.status.troubles)
    assert "events were not exported" in made.job.status.troubles["opentelemetry"]
    made.push("h")
    ended(made)
    roots = [s for s in hanging.spans if s.name == "timestep"]
    numbers = [span.attributes["rechannel.timestep.number"] for span in roots]
    assert numbers[0] == 1
    assert numbers[-1] == 8
    assert len(numbers) < 8
