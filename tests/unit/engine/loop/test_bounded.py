"""Thousands of windows, and of rows that wait for others, come and go; state and work stay what they were."""

from datetime import UTC, datetime, timedelta

import pytest

import rechannel as rc
from rechannel import aggregates as agg
from rechannel.testing import Harness, script

EPOCH = datetime(2026, 1, 1, tzinfo=UTC)
SCHEMA = "k BIGINT, x BIGINT, at TIMESTAMP"
TIMESTEPS, KEYS = 240, 12
WORK = ("rows_in", "rows_read", "rows_merged", "runs", "rows_out")


def windowed(window, **options):
    def build(stream, other):
        made = {"n": agg.count(), "total": agg.sum("x")}
        if options.pop("most", False):
            made["most"] = agg.max("x")
        return stream.key_by("k").window(window, **options).aggregate(made, name="bounded")

    return build


def joined(stream, other):
    within = rc.between("-2 seconds", "2 seconds")
    return stream.join(other, "k", how="full", within=within, name="bounded")


def joined_in_windows(stream, other):
    within = rc.windows.tumbling("2 seconds")
    return stream.join(other, "k", how="left", within=within, name="bounded")


def as_of(stream, other):
    return stream.asof_join(other, "k", tolerance="3 seconds", name="bounded")


def sizes(*frames):
    return {f"n{i}": frame.sizes for i, frame in enumerate(frames)}


def cogrouped(stream, other):
    met = stream.cogroup(other, "k", within=rc.windows.tumbling("2 seconds"))
    return met.apply_batches(sizes, "n0 BIGINT, n1 BIGINT", name="bounded")


def applied(window, **options):
    def build(stream, other):
        windows = stream.key_by("k").window(window, **options)
        return windows.apply_batches(sizes, "n0 BIGINT", name="bounded")

    return build


def ranked(stream, other):
    windows = stream.window(rc.windows.tumbling("2 seconds"))
    return windows.top(5, by="x", ranking="rank", ties=True, name="bounded")


def table_key(stream, other):
    return stream.deduplicate("k", within="2 seconds", name="bounded")


OPERATORS = {
    "tumbling": windowed(rc.windows.tumbling("2 seconds")),
    "tumbling, late": windowed(rc.windows.tumbling("2 seconds"), lateness="3 seconds"),
    "tumbling, early": windowed(rc.windows.tumbling("3 seconds"), emit=rc.every("1 second")),
    "sliding": windowed(rc.windows.sliding("8 seconds", "1 second")),
    "sliding, rarely": windowed(rc.windows.sliding("12 seconds", "4 seconds")),
    "sliding, of panes": windowed(rc.windows.sliding("8 seconds", "1 second"), most=True),
    "sessions": windowed(rc.windows.sessions("1900 milliseconds")),
    "sessions, late": windowed(rc.windows.sessions("1900 milliseconds"), lateness="3 seconds"),
    "sessions, early": windowed(
        rc.windows.sessions("1900 milliseconds"), emit=rc.every("1 second")
    ),
    "sessions, of all rows": applied(rc.windows.sessions("1900 milliseconds")),
    "any function": applied(rc.windows.tumbling("2 seconds")),
    "top": ranked,
    "deduplicate": table_key,
    "join": joined,
    "join in windows": joined_in_windows,
    "as of": as_of,
    "cogroup": cogrouped,
}
TWO = ("join", "join in windows", "as of", "cogroup")


LIKE_OTHERS = (
    "tumbling, early",
    "sliding, rarely",
    "sliding, of panes",
    "sessions",
    "sessions, late",
    "sessions, early",
    "any function",
    "top",
    "join in windows",
    "as of",
    "cogroup",
)
"""What others are much like is proven with the slow tests."""


@pytest.mark.parametrize(
    "operator",
    [pytest.param(name, marks=[pytest.mark.slow] * (name in LIKE_OTHERS)) for name in OPERATORS],
)
def test_what_comes_and_goes_leaves_nothing_behind(operator):
    sources = script(SCHEMA), script(SCHEMA)
    streams = [
        rc.read().memory(rows, name=name).event_time("at", "1 second", name=f"{name}-time")
        for rows, name in zip(sources, ("one", "other"), strict=True)
    ]
    clock = 0
    harness = Harness(
        OPERATORS[operator](*streams).write.memory("out", name="out"),
        settings=rc.Settings(tasks=1, bins=2, keep_versions=1, snapshot_every=8),
        clock=lambda: clock,
    )
    harness.start()
    told = []
    run = harness.process.runner.run
    harness.process.runner.run = lambda *step: told.extend(found := run(*step)) or found
    work, state, shown = [], [], 0
    for number in range(TIMESTEPS):
        clock = 1_000 * number
        for source in sources[: 2 if operator in TWO else 1]:
            # Every key has a row in three of four timesteps, up to a second and a half behind.
            source.push(
                [
                    {"k": k, "x": k, "at": EPOCH + timedelta(seconds=number - k % 4 / 2)}
                    for k in range(KEYS)
                    if (k + number) % 4
                ]
            )
        told.clear()
        harness.process.run()
        mine = [r.costs.counts for u in told if u.operator == "bounded" for r in u.reports]
        work.append(sum(counts.get(name, 0) for counts in mine for name in WORK))
        manifest = harness.journal_state().manifests["bounded"]
        state.append((sum(r.rows for r in manifest.runs), sum(r.size for r in manifest.runs)))
        shown += sum(counts["rows_out"] for counts in mine)
    harness.process.sweep()
    assert shown > 500
    early, late = slice(40, TIMESTEPS // 2), slice(TIMESTEPS // 2, None)
    assert max(work[late]) <= 1.1 * max(work[early])
    assert sum(work[late]) <= 1.1 * sum(work[early]) * (TIMESTEPS // 2) / (TIMESTEPS // 2 - 40)
    for before, after in zip(
        zip(*state[early], strict=True), zip(*state[late], strict=True), strict=True
    ):
        assert max(after) <= 1.1 * max(before)
    names = harness.store.list("segments/")
    assert len(list(names)) < 60
