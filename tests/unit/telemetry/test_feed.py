from __future__ import annotations

from rechannel.telemetry.events import Note
from rechannel.telemetry.feed import Feed


def note(number):
    return Note(at_ms=number, topic="any", text="thing")


def test_events_wait_until_they_are_taken():
    feed = Feed()
    assert feed.take() == ((), 0)
    feed.see([note(1), note(2)])
    feed.see([note(3)])
    assert feed.take() == ((note(1), note(2), note(3)), 0)
    assert feed.take() == ((), 0)


def test_the_oldest_give_way_and_are_counted():
    feed = Feed(most=3)
    feed.see([note(1), note(2)])
    feed.see([note(3), note(4)])
    feed.see([note(n) for n in range(5, 10)])
    assert feed.take() == ((note(7), note(8), note(9)), 6)
    feed.see([note(10)])
    assert feed.take() == ((note(10),), 0)
