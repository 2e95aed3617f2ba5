from __future__ import annotations

import subprocess
import sys
import threading
from concurrent.futures import wait

import pytest

from rechannel.threads import DaemonThreads


def test_calls_return_and_raise():
    threads = DaemonThreads(2, "some")
    assert threads.submit(divmod, 7, 2).result(10) == (3, 1)
    with pytest.raises(ZeroDivisionError):
        threads.submit(divmod, 7, 0).result(10)
    threads.shutdown()
    with pytest.raises(RuntimeError, match="'some' were shut down"):
        threads.submit(divmod, 7, 2)


def test_threads_are_used_again_and_have_a_bound():
    threads = DaemonThreads(3, "few")
    gate, names = threading.Event(), []

    def named() -> None:
        names.append(threading.current_thread().name)
        gate.wait(10)

    first = [threads.submit(named) for _ in range(2)]
    gate.set()
    wait(first, 10)
    wait([threads.submit(named) for _ in range(200)], 10)
    threads.shutdown()
    assert len(names) == 202
    assert set(names) <= {"few_0", "few_1", "few_2"}


def test_calls_run_beside_each_other_while_there_are_threads():
    threads = DaemonThreads(3, "three")
    meet = threading.Barrier(3)
    calls = [threads.submit(meet.wait, 10) for _ in range(3)]
    assert sorted(call.result(10) for call in calls) == [0, 1, 2]
    threads.shutdown()


def test_what_waits_is_cancelled_and_what_runs_is_waited_for():
    threads = DaemonThreads(1, "one")
    begun, gate = threading.Event(), threading.Event()
    runs = threads.submit(lambda: (begun.set(), gate.wait(10)))
    assert begun.wait(10)
    waits = threads.submit(divmod, 7, 2)
    threads.shutdown(wait=False, cancel_futures=True)
    assert waits.cancelled()
    assert not runs.done()
    gate.set()
    threads.shutdown()
    assert runs.done()


def test_a_call_that_was_cancelled_does_not_run():
    threads = DaemonThreads(1, "one")
    gate, ran = threading.Event(), []
    threads.submit(gate.wait, 10)
    waits = threads.submit(ran.append, 1)
    assert waits.cancel()
    gate.set()
    threads.shutdown()
    assert ran == []


def test_a_thread_that_cannot_begin_leaves_nothing(monkeypatch):
    threads, ran = DaemonThreads(2, "none"), []

    def cannot(thread: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    with monkeypatch.context() as patched:
        patched.setattr(threading.Thread, "start", cannot)
        with pytest.raises(RuntimeError, match="can't start"):
            threads.submit(ran.append, 1)
    threads.submit(ran.append, 2).result(10)
    threads.shutdown()
    assert ran == [2]


def test_waiting_for_what_runs_has_a_bound():
    threads = DaemonThreads(1, "one")
    gate = threading.Event()
    threads.submit(gate.wait, 10)
    threads.shutdown(wait=False)
    assert not threads.join(0.01)
    gate.set()
    assert threads.join(10)


def test_a_call_that_never_returns_does_not_keep_the_process():
    code = (
        "import threading\n"
        "from rechannel.threads import DaemonThreads\n"
        "begun = threading.Event()\n"
        "DaemonThreads(1, 'one').submit(lambda: (begun.set(), threading.Event().wait()))\n"
        "assert begun.wait(10)\n"
    )
    assert subprocess.run([sys.executable, "-c", code], timeout=60, check=False).returncode == 0
