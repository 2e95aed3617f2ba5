"""Which batches are profiled, and in which windows."""

import pytest

from rechannel.errors import TraceError
from rechannel.profiling.model.batches import StreamBatch, batch_windows, choose_batches

MS = 1_000_000


def test_batches_of_one_stream_are_ordered_by_their_start():
    later, first, other = (
        StreamBatch("q", 2, 20, 30),
        StreamBatch("q", 1, 10, 20),
        StreamBatch("r", 1, 0, 5),
    )
    assert choose_batches([later, first], None, "log") == [first, later]
    assert choose_batches([later, first, other], "r", "log") == [other]


@pytest.mark.parametrize(
    ("batches", "query", "said"),
    [
        ([], None, "log has no batches that could be windows: give the length of a window"),
        ([], "q", "log has no stream 'q' and no other one: leave out the query"),
        (["q", "r"], None, "log has batches of several streams: choose one as the query: q, r"),
        (["q"], "r", "log has no stream 'r': choose one of q"),
    ],
)
def test_an_unclear_stream_is_an_error(batches, query, said):
    with pytest.raises(TraceError, match=said):
        choose_batches([StreamBatch(name, 0, 0, 1) for name in batches], query, "log")


def test_batches_outside_of_the_time_have_no_window():
    batches = [StreamBatch("q", n, 10 * n, 10 * n + 10) for n in range(4)]
    kept, windows = batch_windows(batches, 10 * MS, 30 * MS)
    assert [batch.number for batch in kept] == [1, 2]
    assert windows == [(10 * MS, 20 * MS), (20 * MS, 30 * MS)]


def test_batches_told_in_whole_milliseconds_are_not_lost_at_the_ends():
    batches = [
        StreamBatch("q", 1, 10, 20),
        StreamBatch("q", 2, 20, 31),
        StreamBatch("q", 3, 31, 40),
    ]
    # The trace begins behind the first one's millisecond, and ends before the second one's.
    kept, spans = batch_windows(batches, 10 * MS + 400_000, 30 * MS + 600_000)
    assert [batch.number for batch in kept] == [1, 2]
    assert spans == [(10 * MS + 400_000, 20 * MS), (20 * MS, 30 * MS + 600_000)]
