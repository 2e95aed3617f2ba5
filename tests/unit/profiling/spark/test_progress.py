"""Batches of streams, out of their progress."""

import time

import pytest

from rechannel.errors import TraceError
from rechannel.profiling.spark.application import Batch
from rechannel.profiling.spark.progress import batch_of, moment, with_intervals
from rechannel.profiling.spark.stream_events import EventTime, SourceProgress, StreamProgress

WHEN = "2023-11-14T22:13:20.000Z"


@pytest.mark.parametrize("zone", ["UTC", "Asia/Tokyo"])
def test_a_time_without_a_zone_is_utc(monkeypatch, zone):
    monkeypatch.setenv("TZ", zone)
    time.tzset()
    try:
        found = [moment(text) for text in (WHEN, WHEN.removesuffix("Z"))]
    finally:
        monkeypatch.undo()
        time.tzset()
    assert found == [1_700_000_000_000] * 2


def test_a_watermark_that_is_no_time_leaves_the_batch():
    for text in ("-292275055-05-16T16:47:04.192Z", "soon", "", None):
        told = StreamProgress(timestamp=WHEN, event_time=EventTime(watermark=text))
        assert batch_of(told).watermark == 0
    with pytest.raises(TraceError, match="a stream tells the time 'soon'"):
        batch_of(StreamProgress(timestamp="soon"))


@pytest.mark.parametrize(
    ("latest", "end", "left"),
    [
        (9, 4, 5),
        ("9", '"4"', None),
        ({"t": {"0": 9, "1": 3}}, '{"t":{"0":4,"1":3}}', 5),
        # Delta: what is left are versions; whether it still reads the first one is no number.
        (
            {"reservoirVersion": 10, "isStartingVersion": True},
            {"reservoirVersion": 8, "isStartingVersion": False},
            2,
        ),
        (True, False, None),
        (None, 4, None),
    ],
)
def test_how_many_offsets_are_left(latest, end, left):
    source = SourceProgress(latest=latest, end=end)
    assert batch_of(StreamProgress(timestamp=WHEN, sources=[source])).source_backlog == left


class Listed(list):
    """A list that counts how often it is read."""

    read = 0

    def __iter__(self):
        self.read += 1
        return super().__iter__()


def test_the_batches_of_many_streams_are_read_once():
    def batches(query, apart):
        return [Batch(query=query, number=n, start=apart * n, end=apart * n + 10) for n in range(5)]

    told = Listed([batch for n in range(20) for batch in batches(f"q{n}", 1_000 + n)])
    found = with_intervals(told)
    assert {each.query: each.interval for each in found} == {f"q{n}": 1_000 + n for n in range(20)}
    assert [each.number for each in found] == [each.number for each in told]
    assert told.read <= 3
