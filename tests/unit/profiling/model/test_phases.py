"""Windows that follow what an application does."""

import numpy as np

from rechannel.profiling.model.batches import StreamBatch
from rechannel.profiling.model.landmarks import Mark, MarkKind
from rechannel.profiling.model.phases import MOST, fit, fit_batches, joined, phases_of
from rechannel.profiling.model.pieces import PIECE_ROWS
from rechannel.profiling.model.trace import MS, NS, Names


class Evenly:
    """A trace whose rows are spread evenly over its seconds."""

    def __init__(self, per_second=0, workers=4, dense=()):
        self.names = Names(workers=[str(i) for i in range(workers)])
        self.per_second, self.dense = per_second, dense

    def before(self, times):
        held = times / NS * self.per_second
        for at, rows in self.dense:
            held += rows * (times >= at * NS)
        return held


def seconds(windows):
    return [(start / NS, end / NS) for start, end in windows]


def phases(*spans):
    return [(round(start * NS), round(end * NS)) for start, end in spans]


def test_jobs_that_overlap_are_one_window_and_the_time_between_is_the_drivers():
    found = fit(Evenly(), (0, 60 * NS), phases((20, 30), (5, 10), (25, 40), (40, 44)))
    assert seconds(found.windows) == [(0, 5), (5, 10), (10, 20), (20, 40), (40, 44), (44, 60)]
    assert found.wholes == found.windows
    assert set(found.numbers) == {None}
    assert seconds(joined([(3 * NS, 4 * NS), (NS, 3 * NS), (9, 9)])) == [(1, 3), (3, 4)]


def test_what_is_shorter_than_a_second_is_joined():
    short = phases((0, 0.4), (0.5, 0.9), (1.2, 5), (5.1, 8))
    found = fit(Evenly(), (0, 8 * NS + NS // 2), short)
    assert seconds(found.windows) == [(0, 1.2), (1.2, 5), (5, 8.5)]
    assert seconds(fit(Evenly(), (0, NS // 4), short).windows) == [(0, 0.25)]


def test_without_phases_a_run_is_cut_where_workers_do_much():
    assert seconds(fit(Evenly(), (NS, 60 * NS)).windows) == [(1, 60)]
    assert fit(Evenly(), (0, 0)).windows == []
    # 4 workers do 64 things each in 25.6 seconds, with 10 things per second.
    found = fit(Evenly(10), (0, 80 * NS))
    assert len(found.windows) == 3
    assert seconds(found.wholes) == [(0, 80)]
    assert len(fit(Evenly(1_000), (0, 80 * NS)).windows) == 100


def test_batches_are_windows_of_a_stream_only():
    batches = [StreamBatch("q", n, 10_000 * n + 1_000, 10_000 * n + 9_000) for n in range(3)]
    stream = fit(Evenly(), (0, 30 * NS), phases((2, 8)), batches)
    assert seconds(stream.windows) == [(1, 9), (11, 19), (21, 29)]
    assert list(stream.numbers) == [0, 1, 2]
    # Jobs last far longer than the batches: it is no stream.
    other = fit(Evenly(), (0, 90 * NS), phases((30, 90)), batches)
    assert seconds(other.windows)[-2:] == [(29, 30), (30, 90)]
    assert set(other.numbers) == {None}


def test_windows_that_are_long_for_their_tasks_are_cut_and_gains_are_computed_on_the_whole():
    def lengths(end, task_ms, per_second=1_000):
        found = fit(
            Evenly(per_second), (0, end * NS), phases((0, 40), (40, end)), task=task_ms * MS
        )
        assert end > 1_000 or seconds(found.wholes) == [(0, 40), (40, end)]
        assert (found.windows[0][0], found.windows[-1][1]) == (0, end * NS)
        return {round((b - a) / NS, 3) for a, b in found.windows}

    assert lengths(168, task_ms=1_000) == {40, 64}
    # Ten seconds are not long, whatever the tasks; and a window is cut into a hundred at most.
    assert lengths(100, task_ms=1) == {10}
    assert lengths(100, task_ms=60_000) == {40, 60}
    assert lengths(100, task_ms=0) == {40, 60}
    assert max(lengths(10_040, task_ms=1, per_second=10)) == 100
    # A day in which little happens is one window.
    assert lengths(86_440, task_ms=1, per_second=0.001) == {40, 86_400}


def test_no_window_for_gains_has_many_more_rows_than_a_piece():
    source = Evenly(PIECE_ROWS // 10, workers=10_000, dense=[(5, 9 * PIECE_ROWS)])
    span = (0, 40 * NS)
    found = fit(source, span)
    edges = np.array(found.wholes)
    assert (edges[1:, 0] == edges[:-1, 1]).all()
    assert (edges[0, 0], edges[-1, 1]) == span
    # What happens at one moment cannot be cut.
    held = np.diff(source.before(np.append(edges[:, 0], span[1])))
    assert np.sort(held)[-2] < 1.2 * PIECE_ROWS
    batches = [StreamBatch("q", 0, 0, 40_000)]
    one = fit_batches(source, span, batches)
    assert (one.windows, list(one.numbers)) == ([span], [0])
    assert len(one.wholes) == len(found.wholes)


def test_the_number_of_windows_is_bounded():
    month = 30 * 86_400
    many = phases(*((at, at + 90) for at in range(0, month, 200)))
    assert len(many) > 2 * MOST
    assert MOST / 2 < len(fit(Evenly(), (0, month * NS), many).windows) <= MOST
    idle = fit(Evenly(), (0, month * NS), phases((0, 9), (month - 9, month)))
    assert len(idle.windows) == 3
    ticks = [StreamBatch("q", n, n * 10, n * 10 + 9) for n in range(2 * MOST)]
    found = fit(Evenly(), (0, 20 * MOST * MS), (), ticks)
    assert len(found.windows) < 200
    assert set(found.numbers) == {None}


def test_jobs_and_executions_are_phases():
    def mark(what, start, end):
        return Mark(what=what, number=0, start=start, end=end)

    marks = [
        mark(MarkKind.JOB, 3, 20),
        mark(MarkKind.STAGE, 4, 6),
        mark(MarkKind.EXECUTION, 1, 19),
        mark(MarkKind.EXECUTION, 0, 20),
    ]
    # The last execution never ended, for all that the log says.
    assert phases_of(marks, 20) == [(3, 20), (1, 19)]
