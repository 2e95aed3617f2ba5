import errno
import logging
import threading

import pytest

from rechannel.telemetry import files
from rechannel.telemetry.events import Note, TimestepStarted
from rechannel.telemetry.files import event_files
from rechannel.telemetry.log import EventLog
from rechannel.telemetry.reading import read_events
from rechannel.telemetry.tasks_finished import TasksFinished


def note(number):
    return Note(at_ms=number, topic="test", text="n")


def notes(start, stop):
    return [note(number) for number in range(start, stop)]


@pytest.fixture
def open_log(tmp_path):
    logs = []

    def make(**settings):
        log = EventLog(tmp_path / "telemetry", **{"flush_s": 0.0, **settings})
        logs.append(log)
        return log

    yield make
    for log in logs:
        log.close()


@pytest.fixture
def written(tmp_path):
    return lambda: list(read_events(tmp_path / "telemetry"))


def test_what_is_appended_is_written_in_order(open_log, written):
    log = open_log()
    for number in range(0, 500, 50):
        log.append(*notes(number, number + 50))
    assert log.flush()
    assert written() == notes(0, 500)
    assert log.lost == 0


def test_close_writes_what_is_waiting(open_log, written):
    log = open_log(flush_s=3600.0)
    log.append(*notes(0, 100))
    log.close()
    log.close()
    assert written() == notes(0, 100)


def test_flush_does_not_wait_for_the_interval(open_log, written):
    log = open_log(flush_s=3600.0)
    assert log.flush()
    for number in range(3):
        log.append(note(number))
        assert log.flush()
        assert written() == notes(0, number + 1)


def test_events_from_several_threads_are_all_written(open_log, written):
    log = open_log()

    def append(start):
        for number in range(start, start + 200):
            log.append(note(number))

    threads = [threading.Thread(target=append, args=(start,)) for start in range(0, 1000, 200)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert log.flush()
    seen = [event.at_ms for event in written()]
    assert sorted(seen) == list(range(1000))
    assert all([n for n in seen if n // 200 == k] == sorted(n for n in seen if n // 200 == k)
               for k in range(5))  # fmt: skip


def test_nothing_is_made_when_nothing_is_said(open_log, tmp_path):
    log = open_log()
    log.close()
    assert not (tmp_path / "telemetry").exists()


def test_files_roll_and_old_ones_go(open_log, tmp_path, written):
    log = open_log(roll_bytes=200, keep_files=2)
    for number in range(50):
        log.append(note(number))
        log.flush()
    assert len(event_files(tmp_path / "telemetry")) == 2
    assert written() == notes(50 - len(written()), 50)


def test_a_second_log_goes_on_behind_the_first(open_log, written):
    first = open_log()
    first.append(*notes(0, 3))
    first.close()
    log = open_log()
    log.append(*notes(3, 5))
    assert log.flush()
    assert written() == notes(0, 5)


class Gate:
    """A `complete` that holds the background thread until it is opened."""

    def __init__(self):
        self.entered, self.open = threading.Event(), threading.Event()

    def __call__(self, events):
        self.entered.set()
        assert self.open.wait(30)
        return events


def test_a_full_queue_loses_counts_and_tells(open_log, written):
    gate = Gate()
    log = open_log(capacity=10, complete=gate, clock_ms=lambda: 77)
    log.append(note(0))
    assert gate.entered.wait(30)
    log.append(*notes(1, 8))
    log.append(*notes(8, 20))
    log.append(note(20))
    assert log.lost == 10
    gate.open.set()
    assert log.flush()
    log.append(note(21))
    assert log.flush()
    loss = Note(
        at_ms=77, topic="telemetry", text="10 events before this one were not written",
        data={"lost": 10},
    )  # fmt: skip
    assert written() == [*notes(0, 11), loss, note(21)]


def test_an_event_of_many_tasks_fills_the_queue_like_several(open_log):
    gate = Gate()
    log = open_log(capacity=10, complete=gate)
    log.append(note(0))
    assert gate.entered.wait(30)
    log.append(TasksFinished(timestep=1, operator="o", number=90, figures=b"Arrow"))
    log.append(*notes(1, 4))
    assert log.lost == 2
    gate.open.set()


def test_flush_says_when_it_took_too_long(open_log):
    gate = Gate()
    log = open_log(complete=gate)
    log.append(note(0))
    assert gate.entered.wait(30)
    assert not log.flush(timeout_s=0.01)
    gate.open.set()
    assert log.flush()


def test_after_close_events_are_lost(open_log, written):
    log = open_log()
    log.append(note(0))
    log.close()
    log.append(*notes(1, 4))
    assert log.lost == 3
    assert written() == [note(0)]


class FullDisk:
    """Stands in for the writes of `EventFiles` while `full`."""

    def __init__(self, monkeypatch):
        self.full = False
        self.refused = 0
        append = files.EventFiles.append

        def refuse(this, lines):
            if self.full:
                self.refused += 1
                raise OSError(errno.ENOSPC, "No space left on device")
            append(this, lines)

        monkeypatch.setattr(files.EventFiles, "append", refuse)


def test_a_full_disk_loses_counts_and_tells(open_log, written, monkeypatch, caplog):
    disk = FullDisk(monkeypatch)
    log = open_log(clock_ms=lambda: 77)
    log.append(note(0))
    assert log.flush()
    disk.full = True
    with caplog.at_level(logging.WARNING, logger="rechannel"):
        for number in range(1, 4):
            log.append(*notes(number * 100, number * 100 + 70))
            assert log.flush()
    assert log.lost == 210
    assert disk.refused >= 3
    assert len(caplog.records) == 1
    assert "No space left on device" in caplog.text
    assert "the job goes on" in caplog.text
    disk.full = False
    log.append(note(1))
    assert log.flush()
    assert log.lost == 210
    loss = Note(
        at_ms=77, topic="telemetry", text="210 events before this one were not written",
        data={"lost": 210},
    )  # fmt: skip
    assert written() == [note(0), note(1), loss]


def test_a_directory_that_cannot_be_made(tmp_path):
    (tmp_path / "file").write_text("in the way")
    log = EventLog(tmp_path / "file" / "telemetry", flush_s=0.0)
    log.append(*notes(0, 3))
    assert log.flush()
    log.close()
    assert log.lost == 3


@pytest.mark.parametrize(
    "odd",
    [TimestepStarted(timestep=1, now_ms=0, at_ms=0, offsets={"files": object()}), "no event"],
    ids=["not JSON", "not an event"],
)
def test_an_event_that_cannot_be_written_is_lost_alone(open_log, written, caplog, odd):
    log = open_log(clock_ms=lambda: 77)
    log.append(note(0), odd, note(1))
    assert log.flush()
    assert log.lost == 1
    assert written() == notes(0, 2)
    assert f"cannot write a {type(odd).__name__}" in caplog.text
    log.append(note(2))
    assert log.flush()
    assert written()[3].data == {"lost": 1}


def test_a_loss_is_told_at_the_end_at_the_latest(open_log, written):
    log = open_log(clock_ms=lambda: 77)
    log.append("no event")
    log.close()
    assert [event.data for event in written()] == [{"lost": 1}]


def test_events_are_completed_together_before_they_are_written(open_log, written):
    batches = []

    def complete(events):
        batches.append(len(events))
        return [Note(at_ms=event.at_ms + 100, topic="test", text="n") for event in events]

    log = open_log(complete=complete, flush_s=3600.0)
    for number in range(5):
        log.append(note(number))
    assert log.flush()
    assert batches == [5]
    assert written() == notes(100, 105)


def test_events_are_written_when_they_cannot_be_completed(open_log, written, caplog):
    def complete(_events):
        raise RuntimeError("the other side has gone")

    log = open_log(complete=complete)
    log.append(*notes(0, 3))
    assert log.flush()
    assert log.lost == 0
    assert written() == notes(0, 3)
    assert "the other side has gone" in caplog.text
