"""Whether exporting works, as a trouble of the job.

The SDK of OpenTelemetry exports in threads of its own, and what fails there goes to its loggers alone. So a handler
listens to them: a failed export is a trouble until nothing has failed for two minutes.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable

from rechannel.errors import RechannelError
from rechannel.telemetry.troubles import Trouble

TOPIC = "opentelemetry"
"""Topic of the trouble."""

QUIET_SECONDS = 120.0
"""How long nothing must fail before it works again: twice the interval at which metrics are exported as a rule."""

LOGGERS = ("opentelemetry.sdk", "opentelemetry.exporter")


class Health(logging.Handler):
    """Tells a trouble. Any thread may call it."""

    def __init__(self, trouble: Trouble, clock: Callable[[], float] = time.monotonic) -> None:
        """clock: seconds."""
        super().__init__(logging.WARNING)
        self._trouble, self._clock = trouble, clock
        self._failed_at: float | None = None

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
        raised = record.exc_info[1] if record.exc_info else None
        cause = "" if raised is None else f" ({type(raised).__name__}: {raised})"
        self.failed(RechannelError(f"{record.getMessage().strip()}{cause}"))

    def failed(self, error: BaseException) -> None:
        """Something was not exported."""
        self._failed_at = self._clock()
        self._trouble(TOPIC, error)

    def well(self) -> None:
        """Something was exported, as far as is known."""
        if self._failed_at is None or self._clock() - self._failed_at >= QUIET_SECONDS:
            self._failed_at = None
            self._trouble(TOPIC, None)
