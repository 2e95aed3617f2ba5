"""Spans of a page: exact if there is room, merged if not, and nothing is lost."""

import polars as pl
import pytest

from rechannel.profiling.model.pieces import Pieces, windows_of
from rechannel.profiling.model.trace import MS
from rechannel.profiling.report.spans import FINEST, in_detail, merged_spans
from rechannel.profiling.storage.stored import StoredTrace
from tests.unit.profiling.report.traces import BEGIN, KIND, analysed, cluster


@pytest.fixture(scope="module")
def trace():
    return cluster(3, 2, rounds=6)


def pieces(trace, window=50 * MS, rows=None):
    return Pieces.of(StoredTrace.of(trace), windows_of(trace.span, window), rows=rows)


def activities(trace):
    """What workers did, without waiting."""
    rows = trace.activities
    columns = {name: getattr(rows, name) for name in ("worker", "kind", "operator", "start", "end")}
    frame = pl.DataFrame(columns).filter(pl.col("kind") != KIND["waiting"])
    return frame.sort("worker", "start")


@pytest.mark.parametrize("rows", [None, 20])
def test_activities_that_windows_cut_are_in_one_piece_again(trace, rows):
    cut = pieces(trace, rows=rows)
    assert (len(cut) > 1) == (rows is not None)
    found = merged_spans(cut, 10_000)
    assert found.resolution == 0
    told = found.frame.select("worker", "kind", "operator", "start", "end")
    known = activities(trace)
    # Whatever is known is there; gaps that nothing explains are unknown activities.
    assert told.filter(pl.col("kind") != KIND["unknown"]).rows() == known.rows()
    assert found.frame["count"].to_list() == [1] * len(found.frame)


@pytest.mark.parametrize("rows", [None, 20])
def test_merged_spans_keep_all_time_and_all_critical_participation(trace, rows):
    whole = merged_spans(pieces(trace), 10_000).frame
    found = merged_spans(pieces(trace, rows=rows), 30)
    assert len(found.frame) <= 30 < len(whole)
    assert found.resolution >= FINEST
    for column in ("busy", "count", "path"):
        assert found.frame[column].sum() == pytest.approx(whole[column].sum())
    by_worker = found.frame.group_by("worker").agg(pl.sum("busy")).sort("worker")
    assert by_worker.rows() == whole.group_by("worker").agg(pl.sum("busy")).sort("worker").rows()


@pytest.mark.parametrize("rows", [None, 20])
def test_workers_in_detail_are_not_merged(trace, rows):
    whole = merged_spans(pieces(trace), 10_000).frame
    found = merged_spans(pieces(trace, rows=rows), 20, detailed=[0, 1])
    assert (
        found.frame.filter(pl.col("worker") < 2).rows() == whole.filter(pl.col("worker") < 2).rows()
    )
    assert len(found.frame.filter(pl.col("worker") >= 2)) <= 20
    assert found.activities == len(whole)


def test_the_most_critical_workers_are_shown_in_detail(trace):
    profile = analysed(trace).profile
    edges = dict(profile.by_worker().select("worker", "edges").iter_rows())
    assert in_detail(profile, edges["executor 1 core 1"]) == [1]
    assert len(in_detail(profile, 10_000)) == 7
    assert in_detail(profile, 0) == []


def test_spans_of_a_worker_do_not_overlap(trace):
    frame = merged_spans(pieces(trace), 30).frame
    before = frame.with_columns(pl.col("end").shift().over("worker").alias("before"))
    assert before.filter(pl.col("before") > pl.col("start")).is_empty()
    assert (frame["busy"] <= frame["end"] - frame["start"]).all()


def test_a_merged_span_has_the_kind_that_it_has_most_of(trace):
    frame = merged_spans(pieces(trace), 10).frame
    cores = frame.filter(pl.col("worker") > 0)
    assert cores["kind"].to_list() == [KIND["processing"]] * len(cores)


def test_critical_participation_is_that_of_the_profile(trace):
    frame = merged_spans(pieces(trace, 10_000 * MS), 10_000).frame
    # The first core is three times as slow as all others, so what it does is on every path of its time.
    slow = frame.filter((pl.col("worker") == 1) & (pl.col("kind") == KIND["processing"]))
    assert (slow["path"] / slow["busy"]).to_list() == pytest.approx([1.0] * len(slow))


def test_a_trace_without_windows_has_no_spans(trace):
    empty = Pieces.of(StoredTrace.of(trace), windows_of((BEGIN, BEGIN), MS))
    assert merged_spans(empty, 10).frame.is_empty()
