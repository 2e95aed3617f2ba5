"""Runs as the journal has them, and which of them have rows that wait."""

from dataclasses import replace

import pytest

from rechannel.model.codec import decode, encode
from rechannel.model.eventtime import ENDED, NEVER
from rechannel.model.hashspace import Intervals
from rechannel.state.run import Run

RUN = Run(segment="s", clip=Intervals.everything(), seq=1, level=0, rows=2, size=1, span=1)


@pytest.mark.parametrize(
    ("due", "awaited", "written"),
    [
        (None, None, []),
        ((3, 9), None, [[3, 9]]),
        ((3, 9), 5, [[3, 9, 5]]),
        ((ENDED, 9), NEVER, [[ENDED, 9, NEVER]]),
    ],
)
def test_what_a_run_waits_for_is_read_as_it_was_written(due, awaited, written):
    run = replace(RUN, due=due, awaited=awaited)
    named = replace(run, digest="0f" * 16)
    assert decode(Run, encode(named)) == named
    assert encode(run)[7:] == written
    assert decode(Run, encode(run)) == run


def test_timers_of_processing_time_are_written_beside_those_of_event_time():
    run = replace(RUN, due=(3, ENDED), awaited=5, processing=(7, 8))
    for each in (run, replace(run, digest="0f" * 16), replace(run, awaited=None)):
        assert decode(Run, encode(each)) == each
    assert encode(run)[7:] == [[3, ENDED, 5, 7, 8]]
    assert [run.rings(*span) for span in ((0, 6), (0, 7), (7, 9), (8, 9))] == [
        False, True, True, False,
    ]  # fmt: skip
    assert not RUN.rings(0, ENDED)


def test_only_rows_that_wait_are_waited_for():
    mixed, alone = replace(RUN, due=(3, 9), awaited=5), replace(RUN, due=(ENDED, 9), awaited=NEVER)
    assert [mixed.waits(*span) for span in ((0, 2), (0, 3), (4, 8), (5, 9))] == [
        False, True, True, False,
    ]  # fmt: skip
    assert not alone.waits(0, ENDED)
    assert replace(RUN, due=(3, 9)).waits(5, 9)
    assert not RUN.waits(0, ENDED)
