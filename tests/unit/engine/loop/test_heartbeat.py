"""Signs of the lease go on after a failure, and end when the journal says that the driver was replaced."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable

from rechannel.engine.loop.heartbeat import EXECUTORS, LEASE, TOLD_AFTER, Heartbeat, Sentinel
from rechannel.errors import FencedError, StorageError
from rechannel.telemetry.troubles import Troubles


class Renewals:
    """What becomes of each try; the last one ends the job."""

    def __init__(self, outcomes: Iterable[Exception | None]) -> None:
        self.left = list(outcomes)
        self.over = threading.Event()
        self.tried = 0

    def __call__(self) -> None:
        self.tried += 1
        outcome = self.left.pop(0)
        if not self.left:
            self.over.set()
        if outcome is not None:
            raise outcome


def beaten(
    renewals: Renewals, replaced: Callable[[FencedError], None] = lambda error: None
) -> list[tuple[str, str | None]]:
    """Troubles that began and ended."""
    told: list[tuple[str, str | None]] = []
    heart = Heartbeat(
        renewals,
        over=renewals.over,
        replaced=replaced,
        trouble=Troubles(lambda topic, text: told.append((topic, text))),
        seconds=0.001,
    )
    heart.start()
    heart._thread.join(60)
    return told


def test_a_failed_renewal_is_tried_again_and_told():
    renewals = Renewals([None, StorageError("stale handle"), OSError("again"), None, None])
    told = beaten(renewals)
    assert renewals.tried == 5
    assert told == [(LEASE, "stale handle"), (LEASE, None)]


def test_whoever_was_replaced_gives_no_further_sign_and_the_driver_hears_of_it():
    renewals, heard = Renewals([None, FencedError("replaced"), None]), []
    beaten(renewals, heard.append)
    assert renewals.tried == 2
    assert [str(error) for error in heard] == ["replaced"]


def test_a_death_is_told_once():
    looks = iter([None, None, "it has ended"])
    told: list[str] = []
    sentinel = Sentinel(looks.__next__, over=threading.Event(), tell=told.append, seconds=0.001)
    sentinel.start()
    sentinel._thread.join(60)
    assert told == ["it has ended"]


def test_that_no_executor_takes_tasks_is_told_and_that_one_does_again():
    over, told, looks = threading.Event(), [], []

    def starved():
        looks.append(1)
        if len(looks) > TOLD_AFTER + 3:
            over.set()
        if len(looks) == 2:
            raise RuntimeError("the session ends")
        return None if len(looks) in {1, TOLD_AFTER + 3} else "no executor takes tasks"

    sentinel = Sentinel(
        lambda: None,
        over=over,
        tell=told.append,
        starved=starved,
        trouble=lambda topic, error: told.append((topic, None if error is None else str(error))),
        seconds=0.001,
    )
    sentinel.start()
    sentinel._thread.join(60)
    (topic, said), healed = told
    assert topic == EXECUTORS
    assert said.startswith("no executor takes tasks for ")
    assert healed == (EXECUTORS, None)
