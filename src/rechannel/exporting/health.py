"""Whether exporting works, as a trouble of the job.

The SDK of OpenTelemetry exports in threads of its own. It logs what fails there, and does not report what succeeds. So
there are two kinds of failures, which end in two ways:

- here: the listener's own calls, with processors that export at once. A call that fails shows in the call, or in what
  the SDK logs in the same thread meanwhile. The next call that passes on a sampled span without a failure ends it.
- elsewhere: a batch of spans, a collection of metrics, lost events. It is over when nothing has failed for
  `QUIET_SECONDS`, whether the stream does anything meanwhile or not.

What the SDK logs counts if it comes from what exports spans or metrics, and if the job exports those. The SDK warns of
much else (settings, attributes, resources, logs that it exports), which is not a trouble of the job.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from rechannel.errors import RechannelError
from rechannel.telemetry.troubles import Trouble

TOPIC = "opentelemetry"
"""Topic of the trouble."""

QUIET_SECONDS = 120.0
"""How long nothing must fail elsewhere: twice the interval at which metrics are exported as a rule."""

LOGGERS = ("opentelemetry.sdk", "opentelemetry.exporter")

TRACES, METRICS, LOGS = "traces", "metrics", "logs"

EXPORTING = {
    "opentelemetry.sdk.trace.export": TRACES,
    "opentelemetry.sdk.metrics._internal.export": METRICS,
    "opentelemetry.sdk._shared_internal": None,
}
"""Loggers of the SDK that say what becomes of an export, and of which signal; None = the record says it."""

WORDS = {
    "span": TRACES,
    "trace": TRACES,
    "metric": METRICS,
    "log": LOGS,
}
"""By a word in the name of an exporter's logger, or in an argument of a record: the signal that is meant."""

PASSING = ("__init__", "_default_", "shutdown")
"""How functions begin whose warnings are about settings, or about the end."""


def signal_of(record: logging.LogRecord) -> str | None:
    """Return which signal was not exported ("" = the record does not say which); None if it is about no export."""
    if record.funcName is not None and record.funcName.startswith(PASSING):
        return None
    if record.name in EXPORTING:
        return EXPORTING[record.name] or _named(record)
    if record.name.startswith("opentelemetry.exporter."):
        return _meant(record.name.removeprefix("opentelemetry.exporter.")) or _named(record)
    return None


def _named(record: logging.LogRecord) -> str:
    arguments = record.args if isinstance(record.args, tuple) else ()
    return next((s for each in arguments if isinstance(each, str) and (s := _meant(each))), "")


def _meant(text: str) -> str:
    return next((signal for word, signal in WORDS.items() if word in text.lower()), "")


class Health(logging.Handler):
    """Tells a trouble. Any thread may call it."""

    def __init__(
        self,
        trouble: Trouble,
        clock: Callable[[], float] = time.monotonic,
        *,
        signals: frozenset[str] = frozenset({TRACES, METRICS}),
    ) -> None:
        """clock: seconds. signals: what the job exports."""
        super().__init__(logging.WARNING)
        self._trouble, self._clock = trouble, clock
        self._signals = signals | {""}
        self._state = threading.RLock()
        self._thread: int | None = None
        """The thread that passes something on now."""
        self._here = False
        """Whether the latest call that could fail here has failed."""
        self._failed_now = False
        self._failed_at: float | None = None
        """When something last failed elsewhere."""

    def begin(self) -> None:
        """Listen to the SDK."""
        for name in LOGGERS:
            logging.getLogger(name).addHandler(self)

    def end(self) -> None:
        """Listen no more."""
        for name in LOGGERS:
            logging.getLogger(name).removeHandler(self)

    def emit(self, record: logging.LogRecord) -> None:
        """Take what the SDK says."""
        if signal_of(record) not in self._signals:
            return
        raised = record.exc_info[1] if record.exc_info else None
        cause = "" if raised is None else f" ({type(raised).__name__}: {raised})"
        error = RechannelError(f"{record.getMessage().strip()}{cause}")
        if record.thread is not None and record.thread == self._thread:
            self._failed_here(error)
        else:
            self.failed(error)

    def failed(self, error: BaseException) -> None:
        """Something was not exported, and no later call tells whether that works again."""
        with self._state:
            self._failed_at = self._clock()
            self._trouble(TOPIC, error)

    @contextmanager
    def passing_on(self) -> Iterator[None]:
        """Pass spans on in this thread: one thread does that. An error is a trouble, and is not raised."""
        self._failed_now, self._thread = False, threading.get_ident()
        try:
            yield
        except Exception as error:  # processors are the user's
            self._failed_here(error)
        finally:
            self._thread = None

    def passed_on(self) -> None:
        """A sampled span was passed on. If that has not failed, it works again."""
        with self._state:
            if self._here and not self._failed_now:
                self._here = False
                self._tell_if_well()

    def look(self) -> None:
        """Let time pass, whatever the stream does."""
        with self._state:
            if self._failed_at is not None and self._clock() - self._failed_at >= QUIET_SECONDS:
                self._failed_at = None
                self._tell_if_well()

    def _failed_here(self, error: BaseException) -> None:
        with self._state:
            self._here = self._failed_now = True
            self._trouble(TOPIC, error)

    def _tell_if_well(self) -> None:
        if self._failed_at is None and not self._here:
            self._trouble(TOPIC, None)
