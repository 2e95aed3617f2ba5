"""Places that take the rows of a timestep and a mark in one step."""

from __future__ import annotations

from typing import Any

import pytest

from rechannel.errors import StorageError
from rechannel.sinks.batch import Batch
from rechannel.sinks.marked import ConflictError, MarkedWriter, UncertainError
from rechannel.sinks.marks import Holder, Mark
from rechannel.sinks.outlet import SinkContext

BATCH = Batch(timestep=3, digest="d")


class Place:
    """A table whose step may be made while its answer is lost."""

    def __init__(self, error: Exception, *, begins: bool, made: bool) -> None:
        self.error, self.begins, self.made = error, begins, made
        self.mark: Mark | None = Mark(2, "")
        self.opened = 0

    def open(self) -> Mark | None:
        self.opened += 1
        return self.mark

    def write(self, rows: Any, mark: Mark, *, is_new: Any) -> None:
        if self.begins:
            assert is_new(self.mark)
        if self.made:
            self.mark = mark
        raise self.error

    def close(self) -> None: ...


def written(place: Place) -> MarkedWriter:
    """A writer that has tried to write a timestep."""
    holder = Holder(where="here", name="n", elsewhere="elsewhere", stays="they stay")
    writer = MarkedWriter(place, holder, SinkContext(job="job", name="out"))
    writer.stage(None, BATCH)  # type: ignore[arg-type]
    with pytest.raises(type(place.error)):
        writer.publish({}, BATCH)
    return writer


@pytest.mark.parametrize("made", [True, False])
@pytest.mark.parametrize("error", [StorageError("reset"), UncertainError("reset")])
def test_a_step_that_has_begun_may_have_been_made_whatever_its_answer_was(error, made):
    place = Place(error, begins=True, made=made)
    assert written(place).shows(BATCH) is made
    assert place.opened == 1


def test_a_place_that_did_not_answer_before_the_step_has_no_rows():
    place = Place(StorageError("it does not answer"), begins=False, made=False)
    assert not written(place).shows(BATCH)
    assert place.opened == 0


def test_a_conflict_is_no_doubt():
    place = Place(ConflictError("another one"), begins=True, made=False)
    assert not written(place).shows(BATCH)
    assert place.opened == 0


def test_a_timestep_that_the_place_had_when_it_was_opened_is_there_though_it_does_not_answer_now():
    """The driver before died after the step and before it could journal that."""
    place = Place(StorageError("it does not answer"), begins=False, made=False)
    place.mark = Mark(3, "d")
    holder = Holder(where="here", name="n", elsewhere="elsewhere", stays="they stay")
    writer = MarkedWriter(place, holder, SinkContext(job="job", name="out"))
    writer.begin()
    writer.stage(None, BATCH)  # type: ignore[arg-type]
    with pytest.raises(StorageError):
        writer.publish({}, BATCH)
    assert writer.shows(BATCH)
    assert not writer.shows(Batch(timestep=4, digest="e"))
    assert place.opened == 1
