"""The Yahoo streaming benchmark: its events, its parser, and what it makes of a run."""

import json
import time
from collections import Counter
from dataclasses import replace
from itertools import pairwise

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from benchmarks.clock_source import MOST_ROWS
from benchmarks.harness import Variant
from benchmarks.process import Run
from benchmarks.trials import Trials
from benchmarks.yahoo import trial
from benchmarks.yahoo.benchmark import BENCHMARK, check, figures, ratios_of, variants
from benchmarks.yahoo.events import (
    AD_TYPES,
    EVENT_TYPES,
    AdEvents,
    AdSource,
    ads_of,
    campaign_ids,
)
from benchmarks.yahoo.figures import (
    counts_in,
    delays,
    differing,
    latencies,
    next_rate,
    span_of,
    sustained,
)
from benchmarks.yahoo.query import Campaigns, parse_views, parsed
from benchmarks.yahoo.store import Store, last_updates, visible
from benchmarks.yahoo.trial import Batches, measure

MS = 1_000_000
START_NS = 1_700_000_003 * 1_000 * MS
EVENTS = AdEvents(start_ns=START_NS, rate=1_000, partitions=3, campaigns=7, ads=3)
LATE = replace(EVENTS, skewed=True, late_every=50, late_ms=30_000)
FIELDS = ("user_id", "page_id", "ad_id", "ad_type", "event_type", "event_time", "ip_address")


def objects(events, first, end):
    """The rows as dicts, by another parser."""
    return [json.loads(text) for text in events.batch(first, end)["value"].to_pylist()]


# --- events -------------------------------------------------------------------------------------


def test_every_event_has_the_fields_of_the_original():
    found = objects(EVENTS, 0, 5_000)
    assert all(tuple(event) == FIELDS for event in found)
    assert {event["ad_type"] for event in found} == set(AD_TYPES)
    assert {event["ip_address"] for event in found} == {"1.2.3.4"}
    assert len({event["user_id"] for event in found}) == 100
    assert len({event["page_id"] for event in found}) == 100
    assert {event["ad_id"] for event in found} == {ad for ad, _ in ads_of(7, 3)}
    kinds = Counter(event["event_type"] for event in found)
    assert kinds.keys() == set(EVENT_TYPES)
    assert min(kinds.values()) > 1_500


def test_an_event_has_the_time_at_which_it_was_due():
    found = objects(EVENTS, 0, 3_000)
    due = [START_NS // MS + row for row in range(3_000)]
    assert [int(event["event_time"]) for event in found] == due


def test_skew_is_as_in_the_original_and_late_events_are_rare():
    rows = np.arange(20_000)
    behind = EVENTS.times_ms(rows) - replace(EVENTS, skewed=True).times_ms(rows)
    assert set(behind.tolist()) == set(range(-50, 50))
    late = EVENTS.times_ms(rows) - LATE.times_ms(rows)
    assert 200 < (late > 50).sum() < 600
    assert late.max() < 30_050


@pytest.mark.parametrize("events", [EVENTS, LATE])
@given(cuts=st.lists(st.integers(0, 400), max_size=6))
def test_an_event_does_not_depend_on_how_it_is_read(events, cuts):
    edges = sorted({0, 400, *cuts})
    parts = [events.batch(a, b) for a, b in pairwise(edges)]
    assert pa.Table.from_batches(parts).combine_chunks() == pa.table(events.batch(0, 400))
    assert events.batch(0, 400) == replace(events, partitions=9).batch(0, 400)


def test_campaigns_have_as_many_advertisements_each():
    table = dict(ads_of(7, 3))
    assert len(table) == 21
    assert Counter(table.values()) == dict.fromkeys(campaign_ids(7), 3)


@pytest.mark.parametrize("events", [EVENTS, LATE])
def test_counts_are_those_of_the_texts(events):
    table = dict(ads_of(7, 3))
    naive = Counter(
        (table[event["ad_id"]], int(event["event_time"]) // 10_000 * 10_000)
        for event in objects(events, 0, 25_000)
        if event["event_type"] == "view"
    )
    assert events.counts(25_000, 10_000) == naive
    assert len(naive) > 14


def test_the_source_makes_the_events_of_its_options():
    options = {
        "start_ns": str(START_NS),
        "rate": "1000",
        "partitions": "3",
        "campaigns": "7",
        "ads": "3",
        "skewed": "1",
        "late_every": "50",
        "late_ms": "30000",
    }
    reader = AdSource(options).streamReader(None)
    parts = reader.partitions({"rows": 0}, {"rows": 240_000})
    assert len(parts) == 3
    batches = [batch for part in parts for batch in reader.read(part)]
    assert pa.Table.from_batches(batches).combine_chunks() == pa.table(LATE.batch(0, 240_000))
    assert [batch.num_rows for batch in reader.read(parts[0])] == [MOST_ROWS, 80_000 - MOST_ROWS]
    (whole,) = reader.partitions({"rows": 0}, {"rows": 1})[-1:]
    assert [batch.num_rows for batch in reader.read(whole)] == [1]


# --- the query's functions ----------------------------------------------------------------------


def test_views_are_parsed_as_another_parser_does():
    found = parse_views(LATE.batch(0, 2_000)).to_pylist()
    views = [event for event in objects(LATE, 0, 2_000) if event["event_type"] == "view"]
    assert [row["ad_id"] for row in found] == [event["ad_id"] for event in views]
    at = [round(row["event_time"].timestamp() * 1e3) for row in found]
    assert at == [int(event["event_time"]) for event in views]


def test_any_json_is_parsed_not_only_what_the_generator_writes():
    texts = pa.array(
        [
            '{ "event_time":"5" , "event_type":"vi\\u0065w","more":{"ad_id":"x"},"ad_id":"a \\"b\\""}',
            None,
            '{"ad_id":"c"}',
        ]
    )
    assert parsed(texts).to_pylist() == [
        {"ad_id": 'a "b"', "event_type": "view", "event_time": "5"},
        {"ad_id": "c", "event_type": None, "event_time": None},
    ]
    assert parse_views(pa.record_batch({"value": texts})).num_rows == 1
    assert parse_views(pa.record_batch({"value": texts[:0]})).num_rows == 0
    with pytest.raises(pa.ArrowInvalid):
        parsed(pa.array(["no JSON"]))


def test_advertisements_that_nobody_knows_are_left_out():
    (first, campaign), *_ = ads_of(7, 3)
    times = pa.array([1, 2, 3], pa.timestamp("us", "UTC"))
    batch = pa.record_batch({"ad_id": ["nobody's", first, None], "event_time": times})
    joined = Campaigns(campaigns=7, ads=3)(batch)
    assert joined["campaign_id"].to_pylist() == [campaign]
    assert joined["event_time"] == times[1:2]


# --- what is written ----------------------------------------------------------------------------


def test_the_last_update_of_every_window_counts(tmp_path):
    def rows(*updates):
        columns = zip(*updates, strict=True) if updates else ([], [], [])
        names = ("campaign_id", "window_start", "count")
        types = (pa.string(), pa.timestamp("us", "UTC"), pa.int64())
        return pa.table({n: pa.array(c, t) for n, c, t in zip(names, columns, types, strict=True)})

    assert last_updates(tmp_path).num_rows == 0
    store = Store(str(tmp_path))
    store(rows(("a", 10_000_000, 3), ("b", 10_000_000, 1)), 2)
    # The clock of a file system is coarse.
    time.sleep(0.02)
    store(rows(), 9)
    store(rows(("a", 10_000_000, 7), ("a", 20_000_000, 1)), 10)
    store(rows(("a", 10_000_000, 7), ("a", 20_000_000, 1)), 10)
    seen = visible(tmp_path)
    assert list(seen) == [2, 9, 10]
    assert seen[2] < seen[10]
    found = last_updates(tmp_path).sort_by(
        [("window_ms", "ascending"), ("campaign_id", "ascending")]
    )
    assert found.select(["campaign_id", "window_ms", "count", "number", "updates"]).to_pylist() == [
        {"campaign_id": "a", "window_ms": 10_000, "count": 7, "number": 10, "updates": 2},
        {"campaign_id": "b", "window_ms": 10_000, "count": 1, "number": 2, "updates": 1},
        {"campaign_id": "a", "window_ms": 20_000, "count": 1, "number": 10, "updates": 1},
    ]
    assert found["visible_ns"].to_pylist() == [seen[10], seen[2], seen[10]]


# --- figures ------------------------------------------------------------------------------------


def test_whole_windows_behind_the_warm_up_are_measured():
    span = span_of(
        start_ns=START_NS, rate=1_000, window_ms=10_000, warmup_ms=5_000, length_ms=25_000
    )
    assert (span.first_ms, span.end_ms) == (1_700_000_010_000, 1_700_000_030_000)
    rows = np.arange(span.rows + 1)
    at = EVENTS.times_ms(rows)
    assert at[-1] > span.end_ms >= at[-2]
    more = span_of(
        start_ns=START_NS, rate=1_000, window_ms=10_000, warmup_ms=5_000, length_ms=1, slack_ms=50
    )
    assert (more.end_ms, more.rows) == (1_700_000_020_000, span.rows - 10_000 + 50)


def run_of(late_ms=200.0, *, rate=1_000, seconds=40, every_ms=500, growth=0.0, wrong=0, **more):
    """A batch every `every_ms`, each visible `late_ms` after its last row was due."""
    events = replace(EVENTS, rate=rate)
    start_ms = START_NS // MS
    span = span_of(
        start_ns=START_NS, rate=rate, window_ms=10_000, warmup_ms=5_000, length_ms=20_000
    )
    ends = np.arange(start_ms + every_ms, start_ms + seconds * 1_000, every_ms)
    shown = ends + late_ms + growth * (ends - start_ms)
    batches = [
        (int((end - every_ms - start_ms) * rate // 1_000), int((end - start_ms) * rate // 1_000))
        for end in ends
    ]
    counts = counts_in(events.counts(span.rows, 10_000), span.end_ms, 10_000)
    pairs = list(counts)
    last = [int(np.searchsorted(ends, window + 10_000)) for _, window in pairs]
    return {
        "rate": rate,
        "start_ns": START_NS,
        "first_ms": span.first_ms,
        "end_ms": span.end_ms,
        "rows": span.rows,
        "campaign": [campaign for campaign, _ in pairs],
        "window_ms": [window for _, window in pairs],
        "count": [count + wrong for count in counts.values()],
        "updates": [1] * len(pairs),
        "updated_ms": [float(shown[i]) for i in last],
        "committed_ms": [float(shown[i]) + 50 for i in last],
        "batches": [
            (*rows, int(at * MS) + 50 * MS, int(at * MS))
            for rows, at in zip(batches, shown, strict=True)
        ],
        "phases": {"add": [1.0, 3.0]},
        **more,
    }


def test_latency_is_the_last_update_less_the_end_of_the_window():
    run = run_of(late_ms=200.0)
    assert set(latencies(run, 10_000).tolist()) == {200.0}
    assert set(latencies(run, 10_000, committed=True).tolist()) == {250.0}
    assert len(latencies(run, 10_000)) == 2 * 7
    with pytest.raises(ValueError, match="no window"):
        latencies({**run, "first_ms": run["end_ms"]}, 10_000)


def test_a_run_whose_counts_differ_is_refused():
    parameters = {**BENCHMARK.parameters(quick=False, overrides={}), "campaigns": 7, "ads": 3}
    variant = Variant(name="rechannel_1k", function="a:b", parameters=parameters)
    run = run_of()
    check(variant, run)
    with pytest.raises(ValueError, match="counts are wrong: campaign"):
        check(variant, run_of(wrong=1))
    less = {k: run[k][1:] for k in ("campaign", "window_ms", "count", "updated_ms", "committed_ms")}
    with pytest.raises(ValueError, match="1 of 21 counts are wrong"):
        check(variant, {**run, **less})
    assert differing({("a", 0): 1}, {("a", 0): 1}) == ""
    assert "has 2 views instead of 0" in differing({("a", 0): 2}, {})


def test_a_backlog_that_grows_is_not_sustained():
    bearable = {"growth": 0.05, "bearable_ms": 5_000}
    assert sustained(run_of(), **bearable)
    assert sustained(run_of(growth=0.04), **bearable)
    assert not sustained(run_of(growth=0.07), **bearable)
    assert not sustained(run_of(late_ms=4_600.0), **bearable)
    assert not sustained({**run_of(), "batches": run_of()["batches"][:30]}, **bearable)
    assert not sustained(run_of(every_ms=13_000, seconds=50), growth=1.0, bearable_ms=60_000)
    assert not sustained({**run_of(), "batches": []}, **bearable)
    at, waited = delays(run_of(late_ms=200.0))
    assert set(waited.tolist()) == {700.0}
    assert at[0] >= run_of()["first_ms"]


@given(limit=st.integers(500, 3_000_000))
def test_the_search_ends_close_to_what_is_sustained(limit):
    tried = []
    while rate := next_rate(tried, first=50_000, ratio=1.15):
        tried.append((rate, rate <= limit))
        assert len(tried) < 30
    good = max((rate for rate, well in tried if well), default=0)
    assert good <= limit < max(1_563, (good + 1) * 1.15)


def test_ratios_are_over_the_better_store_and_of_rates_the_other_way_round():
    def found(name, *runs):
        return [Run(variant=name, measurement=run, failure=None, memory={}) for run in runs]

    trials = Trials(
        runs=(
            *found("rechannel_1k", run_of(late_ms=100.0), run_of(late_ms=100.0)),
            *found("hdfs_1k", run_of(late_ms=300.0)),
            *found("rocksdb_1k", run_of(late_ms=400.0)),
            *found("rechannel_max", run_of(tried=[(500, True), (900, True), (1_000, False)])),
            *found("hdfs_max", run_of(tried=[(300, True)])),
        )
    )
    metrics = [m for name in trials.variants for m in figures(name, trials, 10_000)]
    ratios = ratios_of(metrics)
    assert ratios["p50_1k"] == ratios["max_1k"] == 3.0
    assert ratios["rate"] == 3.0
    value = {(m.variant, m.name): m.value for m in metrics}
    assert value["rechannel_1k", "windows"] == 28
    assert value["hdfs_1k", "and committed, p90"] == 350.0
    assert value["hdfs_1k", "rows per batch"] == 500
    assert value["rechannel_1k", "phase add"] == 2.0


def test_every_side_runs_at_every_rate():
    parameters = BENCHMARK.parameters(quick=False, overrides={"stores": ["hdfs", "rocksdb"]})
    made = {one.name: one.parameters for one in variants(parameters)}
    assert list(made) == [
        f"{side}_{rate}"
        for rate in ("10k", "50k", "max")
        for side in ("rechannel", "hdfs", "rocksdb")
    ]
    assert made["hdfs_50k"]["rate"] == 50_000
    assert made["rocksdb_max"]["rate"] == 0
    assert made["rocksdb_max"]["store"] == "rocksdb"
    assert made["hdfs_10k"]["delay_ms"] == 0
    skewed = BENCHMARK.parameters(quick=True, overrides={"skewed": True})
    assert [one.parameters["delay_ms"] for one in variants(skewed)] == [100, 100]


# --- trials -------------------------------------------------------------------------------------


class Finished:
    """An engine whose streams have read and written everything at once."""

    def __init__(self, lost=0):
        self.lost = lost
        self.rates = []

    def start(self, events, directory, out):
        self.rates.append(events.rate)
        assert list(directory.iterdir()) == [out]
        found = events.counts(events.rate * 60, 2_000)
        rows = [(c, start * 1_000, n - self.lost) for (c, start), n in found.items()]
        columns = zip(
            ("campaign_id", "window_start", "count"), zip(*rows, strict=True), strict=True
        )
        table = pa.table(dict(columns))
        start = pa.array(table["window_start"].to_pylist(), pa.timestamp("us", "UTC"))
        Store(str(out))(table.set_column(1, "window_start", start), 3)
        return self

    def rows(self):
        return 10**9

    def stop(self):
        return Batches(commits={3: (0, 10**9, 5 * MS)}, phases={"add": [1.0]})


def parameters_of(tmp_path, **more):
    overrides = {"rates": [1_000], "campaigns": 7, "ads": 3, **more}
    (variant, *_) = variants(BENCHMARK.parameters(quick=True, overrides=overrides))
    return variant, {**variant.parameters, "scratch": str(tmp_path)}


def test_a_run_is_what_was_written_when(tmp_path):
    variant, parameters = parameters_of(tmp_path)
    found = measure(Finished(), parameters)
    check(variant, found)
    assert "tried" not in found
    assert found["rate"] == 1_000
    assert [batch[:3] for batch in found["batches"]] == [(0, 10**9, 5 * MS)]
    assert set(found["committed_ms"]) == {5.0}
    assert found["end_ms"] - found["first_ms"] == 6_000
    with pytest.raises(ValueError, match="counts are wrong"):
        check(variant, measure(Finished(lost=1), {**parameters, "scratch": str(tmp_path / "lost")}))


def test_what_is_sustained_is_searched_and_a_share_of_it_is_measured(tmp_path, monkeypatch):
    def well(run, **bearable):
        assert bearable == {"growth": 0.05, "bearable_ms": 5_000}
        return run["rate"] <= 2_300

    monkeypatch.setattr(trial, "sustained", well)
    _, parameters = parameters_of(tmp_path)
    engine = Finished()
    asked = {**parameters["search"], "first": 1_000, "ratio": 1.5}
    found = measure(engine, {**parameters, "rate": 0, "search": asked})
    assert found["tried"] == [(1_000, True), (2_000, True), (4_000, False), (2_828, False)]
    # What is not sustained is tried twice.
    assert engine.rates == [1_000, 2_000, 4_000, 4_000, 2_828, 2_828, 1_800]
    assert found["rate"] == 1_800
    monkeypatch.setattr(trial, "sustained", lambda run, **bearable: False)
    again = {**parameters, "scratch": str(tmp_path / "again"), "rate": 0, "search": asked}
    with pytest.raises(RuntimeError, match="no rate was sustained"):
        measure(Finished(), again)
