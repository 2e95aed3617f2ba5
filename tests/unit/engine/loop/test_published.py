"""The position that a driver publishes: other threads look at it and wait for another one."""

from __future__ import annotations

import threading

from msgspec.structs import replace

from rechannel.engine.loop.published import PublishedPosition
from rechannel.engine.program.position import StreamPosition
from tests.support.changing import two

FIRST = StreamPosition(timestep=1, time_ms=100, configuration=two(), drained=True)


def test_the_latest_position_is_shown():
    published = PublishedPosition(FIRST)
    assert published.position is FIRST
    later = replace(FIRST, timestep=2)
    published.publish(later)
    assert published.position is later


def test_who_waits_sees_the_position_that_was_waited_for():
    published, heard = PublishedPosition(FIRST), []
    waiting = threading.Thread(
        target=lambda: heard.append(published.wait_for(lambda p: p.timestep == 3, 60))
    )
    waiting.start()
    for timestep in (2, 3):
        published.publish(replace(FIRST, timestep=timestep))
    waiting.join(60)
    assert heard == [True]


def test_who_waits_too_long_hears_that_it_did_not_come():
    assert not PublishedPosition(FIRST).wait_for(lambda p: p.timestep == 2, 0)


def test_who_waits_looks_again_at_the_end():
    published, ended, heard = PublishedPosition(FIRST), threading.Event(), []
    waiting = threading.Thread(
        target=lambda: heard.append(published.wait_for(lambda _: ended.is_set(), 60))
    )
    waiting.start()
    ended.set()
    published.wake()
    waiting.join(60)
    assert heard == [True]
