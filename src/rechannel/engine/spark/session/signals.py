"""Signals that reach the JVM of the driver, handed to its Python.

A JVM that receives SIGTERM ends, and Spark with it, whatever its Python is doing. Under `spark-submit` the JVM is the
process that receives it; as a service, JVM and Python receive it at the same time. So the JVM passes the signal on and
waits: it ends with its Python.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from rechannel.errors import one_sentence
from rechannel.logs import fields

_LOG = logging.getLogger("rechannel")
NAMES = ("TERM", "INT")


class _Handler:
    """What the JVM calls, in a thread of Python."""

    def __init__(self, arrived: Callable[[str], None]) -> None:
        self._arrived = arrived

    def handle(self, sent: Any) -> None:
        """Pass a signal on."""
        self._arrived(str(sent.getName()))

    class Java:
        """What it is to the JVM."""

        implements = ("sun.misc.SignalHandler",)


@contextmanager
def passed_on(arrived: Callable[[str], None]) -> Iterator[bool]:
    """Have the JVM of the active session call this with "TERM" or "INT" in place of ending.

    Yields whether it does: there may be no session, or one without a JVM.
    """
    before: list[tuple[Any, Any]] = []
    classes: Any = None
    try:
        classes = _classes()
        handler = _Handler(arrived)
        for name in NAMES if classes is not None else ():
            of = classes.Signal(name)
            before.append((of, classes.Signal.handle(of, handler)))
    except Exception as error:
        _LOG.warning(
            "the JVM of Spark ends at once at a signal: %s",
            one_sentence(error),
            extra=fields("spark_lacks", reason=error),
        )
    try:
        yield bool(before)
    finally:
        try:
            for of, handled in before:
                classes.Signal.handle(of, handled)
        except Exception as error:  # the JVM has ended
            _LOG.debug(
                "signals of the JVM: %s",
                one_sentence(error),
                extra=fields("signals_not_restored", reason=error),
            )


def _classes() -> Any:
    """The package `sun.misc` of the active session's JVM, which can call back from now on; None without one."""
    from pyspark import SparkContext
    from pyspark.java_gateway import ensure_callback_server_started

    gateway: Any = getattr(SparkContext, "_gateway", None)
    if gateway is None or getattr(SparkContext, "_active_spark_context", None) is None:
        return None
    ensure_callback_server_started(gateway)  # type: ignore[no-untyped-call]
    return gateway.jvm.sun.misc
