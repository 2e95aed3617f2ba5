from __future__ import annotations

from rechannel.telemetry.events import Note
from rechannel.telemetry.feed import Feed
from rechannel.telemetry.tasks_finished import TasksFinished


def note(number):
    return Note(at_ms=number, topic="any", text="thing")


def many(number):
    return TasksFinished(timestep=1, operator="o", number=number, figures=b"Arrow")


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


def test_an_event_of_many_tasks_takes_the_room_of_several():
    feed = Feed(most=10)
    feed.see([note(1), many(50), note(2), many(40), note(3)])
    assert feed.take() == ((note(2), many(40), note(3)), 2)
    feed.see([note(1), many(1_000)])
    assert feed.take() == ((many(1_000),), 1)  # too large, but there is nothing else
    feed.see([note(n) for n in range(10)])
    assert feed.take() == (tuple(note(n) for n in range(10)), 0)
