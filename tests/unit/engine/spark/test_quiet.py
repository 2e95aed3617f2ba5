"""PySpark says nothing beside the errors that are raised."""

from __future__ import annotations

import threading

import pytest
from pyspark.logger import PySparkLogger

from rechannel.engine.spark import daemon
from rechannel.engine.spark.session.quiet import errors_only_raised, print_unless_hung_up

FLUSH = "PySpark daemon failed to flush the output to the worker process:\nTraceback ...\n"


@pytest.fixture
def heard():
    """What the logger of SQL errors hands on."""
    logger = PySparkLogger.getLogger("SQLQueryContextLogger")
    records: list[str] = []

    class Ear(type(logger.handlers[0]) if logger.handlers else object):  # type: ignore[misc]
        level = 0

        def handle(self, record):
            records.append(record.msg)

    ear = Ear()
    logger.addHandler(ear)
    yield logger, records
    logger.removeHandler(ear)


def test_an_error_of_sql_is_not_logged_by_the_thread_that_hears_of_it(heard):
    logger, records = heard
    logger.error("before")
    with errors_only_raised():
        logger.error("mine")
        other = threading.Thread(target=logger.error, args=("another thread's",))
        other.start()
        other.join()
    logger.error("after")
    assert [str(r) for r in records] == ["before", "another thread's", "after"]


@pytest.mark.parametrize(
    "error", ["BrokenPipeError: [Errno 32] Broken pipe", "ConnectionResetError"]
)
def test_a_worker_that_was_hung_up_on_says_nothing(capsys, error):
    print_unless_hung_up(FLUSH + error)
    assert capsys.readouterr().out == ""


@pytest.mark.parametrize("text", [FLUSH + "OSError: no space", "BrokenPipeError in a function"])
def test_a_worker_says_everything_else(capsys, text):
    print_unless_hung_up(text)
    assert capsys.readouterr().out == f"{text}\n"


def test_the_daemon_prints_through_it(monkeypatch):
    from pyspark import daemon as spark

    served = []
    monkeypatch.setattr(spark, "manager", lambda: served.append(spark.__dict__["print"]))
    monkeypatch.setattr(daemon, "NEEDED", ())
    monkeypatch.setattr(daemon.gc, "freeze", lambda: None)
    monkeypatch.setitem(spark.__dict__, "print", print)
    daemon.main()
    assert served == [print_unless_hung_up]
