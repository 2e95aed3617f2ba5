"""Listeners hear what a job does, and never hold it up."""

from __future__ import annotations

import logging
import threading

import pytest

import rechannel as rc
from rechannel import aggregates as agg
from rechannel.job import InProcess
from rechannel.running.listening import unheard
from rechannel.testing import script

SECONDS = 60.0


class Told(rc.monitoring.JobListener):
    """Remembers what it hears. fails: in which calls it raises."""

    def __init__(self, *fails):
        self.heard, self.fails = [], fails
        self.began = threading.Event()

    def hear(self, what, fact):
        self.heard.append((what, fact))
        self.began.set()
        if what in self.fails:
            raise LookupError(what)

    def on_started(self, status):
        self.hear("started", status)

    def on_progress(self, progress):
        self.hear("progress", progress)

    def on_reconfigured(self, summary):
        self.hear("reconfigured", summary)

    def on_terminated(self, status):
        self.hear("terminated", status)

    def of(self, what):
        return [fact for kind, fact in self.heard if kind == what]


class Hanging(Told):
    """Returns from its first call when it is let go."""

    def __init__(self):
        super().__init__()
        self.go = threading.Event()

    def hear(self, what, fact):
        super().hear(what, fact)
        self.go.wait(SECONDS)


@pytest.fixture
def job(tmp_path):
    rows = script("k STRING")
    flow = rc.read().memory(rows, name="rows").key_by("k").aggregate(n=agg.count(), name="counts")
    running = rc.Job("shop", flow, state=tmp_path / "state").start(in_process=InProcess())

    def push(times=1):
        for _ in range(times):
            rows.push([{"k": "a"}])
        running.process_all_available(SECONDS)

    yield running, push
    running.stop()


def test_a_listener_hears_everything_in_order(job):
    running, push = job
    push()
    told = Told()
    listening = running.listen(told)
    assert told.began.wait(SECONDS)
    push(3)
    change = running.reconfigure(rc.changes.rescale("counts", tasks=3))
    push()
    change.wait(SECONDS)
    running.stop()
    assert listening.join(SECONDS)
    kinds = [kind for kind, _ in told.heard]
    assert (kinds[0], kinds[-1]) == ("started", "terminated")
    assert [each.timestep for each in told.of("progress")] == [2, 3, 4, 5]
    assert [(each.id, each.phase) for each in told.of("reconfigured")] == [("r1", "done")]
    (first,), (last,) = told.of("started"), told.of("terminated")
    assert (first.active, last.active, last.message) == (True, False, "stopped")
    assert (listening.missed, listening.failures) == (0, 0)


def test_one_that_raises_is_logged_and_hears_the_rest(job, caplog):
    running, push = job
    caplog.set_level(logging.WARNING, "rechannel")
    told, other = Told("started", "progress"), Told()
    listening, another = running.listen(told), running.listen(other)
    assert told.began.wait(SECONDS)
    assert other.began.wait(SECONDS)
    push(2)
    running.stop()
    assert listening.join(SECONDS)
    assert another.join(SECONDS)
    assert len(told.of("progress")) == len(other.of("progress")) == 2
    assert listening.failures == 3
    assert len(told.of("terminated")) == 1
    said = [record for record in caplog.records if "listener Told failed" in record.message]
    assert [bool(record.exc_info) for record in said] == [True, False, False]
    assert running.status.troubles == {}


def test_one_that_hangs_holds_up_neither_the_stream_nor_its_end(job):
    running, push = job
    hanging = Hanging()
    listening = running.listen(hanging)
    assert hanging.began.wait(SECONDS)
    push(2)
    running.stop()
    assert running.status.timestep == 2
    assert not listening.join(0)
    hanging.go.set()
    assert listening.join(SECONDS)
    assert [each.timestep for each in hanging.of("progress")] == [1, 2]
    assert len(hanging.of("terminated")) == 1


def test_one_that_is_closed_hears_no_more(job):
    running, push = job
    told = Told()
    listening = running.listen(told)
    assert told.began.wait(SECONDS)
    listening.close()
    assert listening.join(SECONDS)
    push()
    running.stop()
    assert [kind for kind, _ in told.heard] == ["started"]


class Following(Told):
    """Hears events, too."""

    def on_events(self, events, missed):
        for event in events:
            self.hear(event.KIND, event)
        self.heard.append(("missed", missed))


def test_events_come_in_order_and_all_of_them_before_the_end(job):
    running, push = job
    push()
    following = Following()
    listening = running.listen(following)
    assert following.began.wait(SECONDS)
    push(2)
    running.stop()
    assert listening.join(SECONDS)
    events = [
        (kind, fact.timestep)
        for kind, fact in following.heard
        if kind in {"timestep_started", "timestep_committed"}
    ]
    assert events[-4:] == [  # some of just before may come, too
        ("timestep_started", 2),
        ("timestep_committed", 2),
        ("timestep_started", 3),
        ("timestep_committed", 3),
    ]
    assert len(following.of("job_stopped")) == 1
    assert [kind for kind, _ in following.heard][-1] == "terminated"
    assert set(following.of("missed")) == {0}
    assert running._hub._feeds == ()


def test_no_events_are_kept_for_a_listener_that_does_not_hear_them(job):
    running, _ = job
    listening = running.listen(Told())
    assert running._hub._feeds == ()
    listening.close()


def test_what_is_not_kept_any_more_is_missed(job):
    running, push = job
    push(3)
    kept = running.recent_progress
    assert [len(found) for found in unheard(kept, 0)[:1]] == [3]
    assert unheard(kept, 3) == ([], 0)
    new, missed = unheard(kept[2:], 0)
    assert ([each.timestep for each in new], missed) == ([3], 2)
