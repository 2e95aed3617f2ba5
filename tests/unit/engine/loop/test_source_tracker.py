"""Where every source stands, and what the next timestep reads of it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any

import pytest

from rechannel.engine.loop.core.stream_time import StreamTime
from rechannel.engine.loop.source_tracker import SourceTracker, bound_of
from rechannel.engine.stages.runner import SourceSlice, Timestep
from rechannel.errors import SourceError, StorageError
from rechannel.model.configuration import Configuration
from rechannel.sources.backlog import Backlog
from rechannel.sources.reader import UNBOUNDED, Bound
from rechannel.testing import ManualClock

UNTIMED = StreamTime(stream_ms=0, jump_ms=60_000, downtime_ms=3_600_000)


@dataclass
class Reader:
    """A source of `there` rows that says what it is asked, and takes its time to answer."""

    there: int = 0
    clock: ManualClock | None = None
    takes_ms: float = 0.0
    asked: list[tuple[Any, int, int | None]] = field(default_factory=list)
    done: list[Any] = field(default_factory=list)
    closed: int = 0

    repeats = False
    boundable = True
    complaint = None

    def initial(self) -> dict[str, int]:
        return {"rows": 0}

    def latest(
        self, start: dict[str, int], stream_ms: int, bound: Bound = UNBOUNDED
    ) -> dict[str, int]:
        self.asked.append((start, stream_ms, bound.units))
        if self.clock is not None:
            self.clock.advance(self.takes_ms)
        return {"rows": min(self.there, start["rows"] + (bound.units or self.there))}

    def layout(self, start: dict[str, int], end: dict[str, int]) -> list[dict[str, int]]:
        return [{"order": row} for row in range(start["rows"], end["rows"])]

    def committed(self, end: dict[str, int]) -> None:
        self.done.append(end)

    def close(self) -> None:
        self.closed += 1


def intake(
    last_now: int = 0,
    offsets: Any = None,
    clock: Any = None,
    more: Mapping[str, Any] = MappingProxyType({}),
    **readers: Reader,
) -> SourceTracker:
    time = StreamTime(stream_ms=last_now, jump_ms=60_000, downtime_ms=3_600_000)
    return SourceTracker(readers, offsets or {}, time, clock or ManualClock(1_000), **more)  # type: ignore[arg-type]


def decided(slices: dict[str, SourceSlice], stream_ms: int = 1_000) -> Timestep:
    return Timestep(number=1, stream_ms=stream_ms, configuration=Configuration(), slices=slices)


# Time ----------------------------------------------------------------------------------------------


def test_time_never_goes_back():
    clock = ManualClock(1_000.7)
    stream = intake(2_000, clock=clock)
    assert stream.stream_ms() == 2_000
    clock.now_ms = 2_500.9
    assert stream.stream_ms() == 2_500
    stream.take(decided({}, 2_500))
    clock.now_ms = 1_000.0
    assert stream.stream_ms() == 2_500


def test_a_look_that_finds_nothing_is_timed():
    clock = ManualClock(1_000)
    slow = Reader(clock=clock, takes_ms=30)
    stream = intake(clock=clock, one=slow)
    assert stream.look(1_000, Configuration()) is None
    assert stream.polled_ms == 30


# Reading -------------------------------------------------------------------------------------------


def test_a_timestep_reads_what_every_source_has():
    one, other = Reader(there=2), Reader()
    stream = intake(one=one, other=other)
    slices = stream.look(1_234, Configuration())
    assert slices == {
        "one": SourceSlice(start={"rows": 0}, end={"rows": 2}, layout=({"order": 0}, {"order": 1})),
        "other": SourceSlice(start={"rows": 0}, end={"rows": 0}, layout=()),
    }
    assert one.asked == [({"rows": 0}, 1_234, None)]
    # A look takes nothing.
    assert stream.look(1_234, Configuration()) == slices
    stream.take(decided(slices))
    assert stream.look(1_234, Configuration()) is None


def test_a_bound_is_told_to_the_source_it_is_for():
    one, other = Reader(there=5), Reader(there=5)
    stream = intake(one=one, other=other)
    slices = stream.look(0, Configuration(bounds={"one": 2, "nobody": 1}))
    assert slices is not None
    assert {name: part.end["rows"] for name, part in slices.items()} == {"one": 2, "other": 5}
    assert (one.asked[0][2], other.asked[0][2]) == (2, None)


def test_a_stream_goes_on_where_it_was():
    stream = intake(one=Reader(there=9), new=Reader(there=9), offsets={"one": {"rows": 7}})
    slices = stream.look(0, Configuration())
    assert slices is not None
    assert {name: part.start["rows"] for name, part in slices.items()} == {"one": 7, "new": 0}


def test_what_runs_again_is_not_read_twice():
    stream = intake(one=Reader(there=9))
    stream.pass_over(decided({"one": SourceSlice(start={"rows": 0}, end={"rows": 8}, layout=())}))
    slices = stream.look(0, Configuration())
    assert slices is not None
    assert slices["one"].start == {"rows": 8}


def test_a_source_hears_what_it_may_forget():
    one, gone = Reader(), {"rows": 3}
    stream = intake(one=one)
    part = SourceSlice(start={"rows": 0}, end=gone, layout=())
    stream.committed(decided({"one": part, "removed": part}))
    assert one.done == [gone]


# Other sources -------------------------------------------------------------------------------------


def test_sources_that_stay_go_on_and_those_that_go_are_closed():
    stays, goes, new = Reader(there=9), Reader(there=9), Reader(there=9)
    stream = intake(stays=stays, goes=goes)
    slices = stream.look(0, Configuration(bounds={"stays": 4, "goes": 4}))
    assert slices is not None
    stream.take(decided(slices))
    again = Reader(there=9)
    stream.switch_to(
        {"stays": stays, "new": new, "again": again}, {"again": {"rows": 6}, "stays": {"rows": 0}}
    )  # type: ignore[dict-item]
    assert (stays.closed, goes.closed, new.closed) == (0, 1, 0)
    slices = stream.look(0, Configuration())
    assert slices is not None
    assert {name: part.start["rows"] for name, part in slices.items()} == {
        "stays": 4, "new": 0, "again": 6,
    }  # fmt: skip


def test_the_reader_of_a_source_that_stays_may_be_another_one():
    old, new = Reader(there=9), Reader(there=9)
    stream = intake(one=old)
    stream.switch_to({"one": new}, {})  # type: ignore[dict-item]
    stream.look(0, Configuration())
    assert (len(old.asked), len(new.asked)) == (0, 1)


@pytest.mark.parametrize("many", [0, 2])
def test_all_readers_are_closed_at_the_end(many):
    readers = {f"r{n}": Reader() for n in range(many)}
    intake(**readers).close()
    assert [reader.closed for reader in readers.values()] == [1] * many


# Bounds --------------------------------------------------------------------------------------------


def test_sources_that_can_be_bounded_share_the_bytes_of_a_timestep():
    @dataclass
    class Own(Reader):
        boundable = False

    asked: list[Bound] = []

    class Asked(Reader):
        def latest(self, start: Any, stream_ms: int, bound: Bound = UNBOUNDED) -> Any:
            asked.append(bound)
            return start

    readers: Any = {"a": Asked(), "b": Asked(), "own": Own()}
    SourceTracker(readers, {}, UNTIMED, ManualClock(0), 1_001).look(0, Configuration())
    assert [bound.bytes for bound in asked] == [500, 500]


def test_what_the_configuration_says_of_a_source_goes_before_its_share():
    configuration = Configuration(bounds={"in": 3}, byte_bounds={"in": 7})
    told, other = (bound_of(configuration, name, 99) for name in ("in", "other"))
    assert (told.units, told.bytes) == (3, 7)
    assert (other.units, other.bytes) == (None, 99)


def test_a_stream_with_a_long_interval_keeps_up_with_its_rate():
    spans = [bound_of(Configuration(interval_ms=ms), "in", None).span_ms for ms in (0, 3_600_000)]
    assert spans == [60_000, 7_200_000]


def test_what_a_source_complains_of_is_a_trouble_until_it_is_over():
    told: list[tuple[str, str | None]] = []
    reader = Reader()
    stream = intake(lags=reader)
    stream._trouble = lambda topic, error: told.append((topic, error and str(error)))
    for complaint in (None, ValueError("behind"), ValueError("behind"), None, None):
        reader.complaint = complaint  # type: ignore[attr-defined]
        stream.look(0, Configuration())
    assert told == [("source lags", "behind")] * 2 + [("source lags", None)]


# Forgetting ----------------------------------------------------------------------------------------


@dataclass
class Forgetful(Reader):
    """A source whose store fails as often as `away` says when it is to forget something."""

    away: int = 0
    error: Exception = field(default_factory=lambda: StorageError("slow down"))
    forgot: int = 0

    def _ask(self) -> None:
        if self.away:
            self.away -= 1
            raise self.error

    def committed(self, end: dict[str, int]) -> None:
        self._ask()
        super().committed(end)

    def forget(self) -> None:
        self._ask()
        self.forgot += 1


def troubled(**readers: Reader) -> tuple[SourceTracker, list[tuple[str, str | None]]]:
    told: list[tuple[str, str | None]] = []
    heard = {"trouble": lambda topic, error: told.append((topic, error and str(error)))}
    return intake(more=heard, **readers), told


def test_a_source_that_cannot_forget_is_a_trouble_and_is_told_of_the_next_commit():
    one = Forgetful(there=1, away=2)
    stream, told = troubled(one=one, two=(two := Reader(there=1)))
    slices = stream.look(0, Configuration())
    assert slices is not None
    for _ in range(4):
        stream.committed(decided(slices))
    assert one.away == 0
    assert (len(one.done), len(two.done)) == (2, 4)
    topic = "source one, clean-up"
    assert told == [(topic, "slow down"), (topic, "slow down"), (topic, None)]


def test_an_error_of_the_user_at_a_commit_ends_the_job():
    stream, told = troubled(one=Forgetful(there=1, away=1, error=ValueError("no")))
    slices = stream.look(0, Configuration())
    assert slices is not None
    with pytest.raises(ValueError, match="no"):
        stream.committed(decided(slices))
    assert told == []


def test_a_source_that_is_gone_forgets_after_a_later_commit():
    one, two = Forgetful(there=1, away=2), Reader(there=1)
    stream, told = troubled(one=one, two=two)
    stream.switch_to({"two": two}, {})
    assert (one.closed, one.forgot) == (1, 0)
    slices = stream.look(0, Configuration())
    assert slices is not None
    for _ in range(3):
        stream.committed(decided(slices))
    assert (one.away, one.forgot) == (0, 1)
    assert [text for _, text in told] == ["slow down", "slow down", None]


def test_what_a_source_left_is_not_forgotten_once_its_name_is_taken():
    one, two = Forgetful(there=1, away=1), Reader(there=1)
    stream, _ = troubled(one=one, two=two)
    stream.switch_to({"two": two}, {})
    stream.switch_to({"two": two, "one": Reader()}, {})
    slices = stream.look(0, Configuration())
    assert slices is not None
    stream.committed(decided(slices))
    assert (one.away, one.forgot) == (0, 0)


# Backlogs -----------------------------------------------------------------------------------------


@dataclass
class Telling(Reader):
    """A source that says what is left, or raises."""

    wrong: bool = False

    def backlog(self, end: dict[str, int], stream_ms: int) -> Backlog:
        if self.wrong:
            raise ValueError("no answer")
        return Backlog(rows=self.there - end["rows"])


def test_a_look_keeps_what_sources_leave_unread():
    stream = intake(told=Telling(there=30), silent=Reader(there=9))
    stream.look(0, Configuration(bounds={"told": 10}))
    assert stream.backlogs == {"told": Backlog(rows=20)}
    stream.look(0, Configuration())
    assert stream.backlogs == {"told": Backlog(rows=0)}


def test_a_source_that_cannot_tell_fails_nothing(caplog):
    reader = Telling(there=30, wrong=True)
    stream = intake(told=reader)
    for _ in range(2):
        assert stream.look(0, Configuration()) is not None
        assert stream.backlogs == {}
    assert caplog.text.count("cannot tell its backlog: no answer") == 1
    reader.wrong = False
    stream.look(0, Configuration())
    reader.wrong = True
    stream.look(0, Configuration())
    assert stream.backlogs == {}
    assert caplog.text.count("cannot tell its backlog") == 2


class Sour(Reader):
    def close(self) -> None:
        raise SourceError("no luck")


def test_a_reader_that_cannot_be_closed_ends_nothing(caplog):
    stays, other = Reader(there=9), Reader()
    stream = intake(stays=stays, goes=Sour(), other=other)
    stream.switch_to({"stays": stays, "other": other}, {})
    assert "could not be closed: no luck" in caplog.text
    assert stream.look(0, Configuration())
    stream = intake(sour=Sour(), other=other)
    stream.close()
    assert other.closed


class Late(Reader):
    """Cannot say where it begins at first."""

    asked_where = 0

    def initial(self):
        self.asked_where += 1
        if self.asked_where == 1:
            raise StorageError("the store is away")
        return super().initial()


def test_where_a_new_source_begins_is_asked_before_it_is_switched_to():
    stays, late = Reader(there=9), Late(there=9)
    stream = intake(stays=stays)
    readers = {"stays": stays, "late": late}
    with pytest.raises(StorageError, match="away"):
        stream.begin(readers, {})
    stream.begin(readers, {})
    stream.switch_to(readers, {})
    assert late.asked_where == 2
    assert set(stream.look(0, Configuration()) or {}) == {"stays", "late"}
