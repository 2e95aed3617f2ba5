"""A trace in pieces says what the whole one says, and needs the memory of a piece."""

from collections import Counter
from random import Random

import numpy as np
import pytest

from rechannel.profiling.model import summaries
from rechannel.profiling.model.findings import suspects
from rechannel.profiling.model.gains import gains
from rechannel.profiling.model.pieces import Pieces, windows_of
from rechannel.profiling.model.summaries import profiled
from rechannel.profiling.spark.log import SparkLog
from rechannel.profiling.spark.trace import spark_trace
from rechannel.profiling.storage.stored import ACTIVITY, StoredTrace
from tests.unit.profiling import logs
from tests.unit.profiling.model.test_findings import rounds
from tests.unit.profiling.model.test_participation import random_trace


def rows_of(*times):
    rows = np.zeros(len(times), dtype=ACTIVITY)
    rows["start"], rows["end"] = np.array(times).T
    return rows


def known(profile):
    by = ["window", "kind", "operator", "worker", "peer", "message"]
    return profile.cells.collect().sort(by)


def same(one, two):
    """Cells are the same, shares but for rounding."""
    exact = [name for name in one.columns if name not in ("critical", "profile")]
    assert one.select(exact).equals(two.select(exact))
    assert np.allclose(one["critical"], two["critical"], rtol=1e-12, atol=0)
    assert np.allclose(one["profile"], two["profile"], rtol=1e-12, atol=0)


@pytest.mark.parametrize("seed", range(60))
@pytest.mark.parametrize("threshold", [0, 4])
def test_pieces_say_what_the_whole_says(seed, threshold):
    rng = Random(seed)
    source = StoredTrace.of(random_trace(rng))
    begin, end = source.span
    if end - begin < 2:
        return
    windows = windows_of(source.span, rng.randint(1, max(1, (end - begin) // 3)))
    whole = Pieces.of(source, windows, threshold)
    cut = Pieces.of(source, windows, threshold, rows=rng.randint(1, 3))
    assert len(whole) == 1
    one, two = profiled(whole), profiled(cut)
    lost = one.windows["left_out"].sum()
    if lost:
        return  # messages in a circle: which one is left out is a matter of order
    assert one.windows.equals(two.windows)
    same(known(one), known(two))
    changes = [each.change for each in suspects(one) if each.change is not None]
    assert gains(changes, whole) == gains(changes, cut)


@pytest.mark.parametrize("seed", range(40))
def test_windows_with_gaps_between_them(seed):
    source = StoredTrace.of(random_trace(Random(seed)))
    begin, end = source.span
    windows = [(at, min(at + 3, end)) for at in range(begin, end - 1, 5)]
    if not windows:
        return
    one, two = (profiled(Pieces.of(source, windows, rows=rows)) for rows in (None, 1))
    if not one.windows["left_out"].sum():
        assert one.windows.equals(two.windows)
        same(known(one), known(two))


def test_pieces_know_what_shuffles_make_of_tasks():
    lines = [each for each in stages(12) if b'Failed":true' not in each]
    made = spark_trace(SparkLog(strict=True).read(lines))
    whole = made.whole()
    real = len(whole.activities) + len(whole.messages)
    (told,) = made.before(np.array([made.span[1] + 1]))
    assert 0.6 * real < told < 1.6 * real


def test_if_there_are_very_many_shuffle_blocks_each_task_asks_fewer_cores(monkeypatch):
    lines = [each for each in stages(12) if b'Failed":true' not in each]

    def asked():
        went = spark_trace(SparkLog(strict=True).read(lines)).whole().messages
        between = (went.source > 0) & (went.target > 0)
        data = between & (went.kind == went.kind[between].max())
        pairs = zip(went.source[data].tolist(), went.target[data].tolist(), strict=True)
        return Counter(source for source, _ in pairs)

    every = asked()
    monkeypatch.setattr("rechannel.profiling.spark.trace.MOST_FETCHES", 2 * 8 * 11)
    some = asked()
    assert sum(some.values()) <= 2 * 8 * 11 < sum(every.values())
    # Not always the same ones.
    assert set(some) == set(every)


def test_the_pieces_of_those_traces_are_many():
    counts = []
    for seed in range(60):
        source = StoredTrace.of(random_trace(Random(seed)))
        begin, end = source.span
        if end - begin >= 2:
            windows = windows_of(source.span, max(1, (end - begin) // 5))
            counts.append(len(Pieces.of(source, windows, rows=2)))
    assert sum(count > 2 for count in counts) > 40


def stages(count, seed=1):
    """A log of stages of eight tasks on two executors, where the next reads from the one before."""
    rng = Random(seed)
    now, out, number = 0, logs.small()[:2], 0
    for executor in "12":
        added = {"Host": "h", "Total Cores": 2}
        out.append(
            logs.line(
                "ExecutorAdded",
                **{"Timestamp": logs.START, "Executor ID": executor, "Executor Info": added},
            )
        )
    for stage in range(count):
        now += rng.randint(1, 30)
        told = logs.stage_info(
            stage, parents=[stage - 1] if stage else [], scope=f"part {stage % 3}"
        )
        start = {"Job ID": stage, "Submission Time": logs.START + now, "Stage Infos": [told]}
        out.append(logs.line("JobStart", **start))
        begun, latest = now + 2, now
        ends = []
        for task in range(8):
            length = rng.randint(3, 60)
            launch = begun + (task // 4) * 60
            ends.append((launch + length, task, launch, length))
        for finish, task, launch, length in sorted(ends):
            figures = logs.metrics(max(0, length - 3), fetch=min(5, length // 4), deserialise=1)
            info = logs.info(number, "12"[task % 2], launch, finish, Index=task)
            failed = rng.random() < 0.1
            if failed:
                info["Failed"] = True
            out.append(logs.task_end(stage, info, figures))
            number, latest = number + 1, max(latest, finish)
        now = latest + rng.randint(0, 5)
        out.append(logs.line("JobEnd", **{"Job ID": stage, "Completion Time": logs.START + now}))
    return [*out, logs.line("ApplicationEnd", Timestamp=logs.START + now + 50)]


def test_an_event_log_in_pieces(monkeypatch):
    lines = stages(60)
    source = spark_trace(SparkLog(strict=True).read(lines))
    windows = windows_of(source.span, 100_000_000)
    whole = profiled(Pieces.of(source, windows))
    # The same with small blocks, so that cores are given and the driver is watched bit by bit.
    monkeypatch.setattr("rechannel.profiling.storage.blocks.BLOCK_ROWS", 16)
    monkeypatch.setattr("rechannel.profiling.spark.cores.BLOCK_ROWS", 16)
    cut = spark_trace(SparkLog(strict=True).read(lines))
    pieces = Pieces.of(cut, windows, rows=100)
    assert len(pieces) > 10
    same(known(whole), known(profiled(pieces)))
    assert whole.known == len(windows)
    assert known(whole)["critical"].sum() == pytest.approx(len(windows), abs=1e-9 * len(windows))


def test_windows_are_summed_alike_alone_and_together(monkeypatch):
    source = StoredTrace.of(rounds((30, 10, 10), 2, steps=12))
    pieces = Pieces.of(source, windows_of(source.span, 4 * 10**9))
    edges = [len(graph.kind) for piece in pieces for _, graph in piece.graphs()]
    assert len(pieces) == 1
    assert min(edges) > 1
    whole = profiled(pieces)
    for most in (1, min(edges) + 1, sum(edges)):
        monkeypatch.setattr(summaries, "TOGETHER", most)
        made = profiled(pieces)
        assert made.windows.equals(whole.windows)
        same(known(made), known(whole))
    critical = whole.over_time().select("critical").to_series()
    assert critical.to_list() == pytest.approx([1.0] * len(edges))
