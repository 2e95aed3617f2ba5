"""The handle on one reconfiguration: what `RunningJob.reconfigure` returns."""

from __future__ import annotations

from contextlib import suppress
from typing import Any

from rechannel.assembly import Parts
from rechannel.engine.program.position import StreamPosition
from rechannel.engine.reconfigure.calls import wait_for
from rechannel.engine.reconfigure.history import read_one, summary
from rechannel.engine.reconfigure.latencies import Latencies
from rechannel.errors import (
    NotReadyError,
    RefusedError,
    as_rechannel_error,
)
from rechannel.monitoring import ReconfigurationSummary
from rechannel.reconfigure.arguments import check_words
from rechannel.reconfigure.record import OPEN, Record

ASKED = "asked for in Python"
"""Why something is done that a program asks for."""


def failure(parts: Parts) -> BaseException | None:
    """Return why a job failed; None if it did not."""
    error = parts.driver.error
    return None if error is None else as_rechannel_error(error)


def abort(parts: Parts, id_: str, reason: str) -> None:
    """End a reconfiguration that has not begun, or roll back one that has. Raises RefusedError."""
    check_words(reason, "reason")
    wait_for(parts.changes.request_abort(id_, reason), f"the abort of {id_}")


class Reconfiguration:
    """The handle on one reconfiguration."""

    def __init__(self, parts: Parts, id_: str) -> None:
        """Use `RunningJob.reconfigure`."""
        self._parts = parts
        self.id = id_

    @property
    def record(self) -> Record:
        """Its state in the journal. Raises NotReadyError if it ended long ago: see `summary`."""
        return self._parts.changes.coordination.find(self.id)

    @property
    def phase(self) -> str:
        """waiting, ready, moving, reversing; done, undone, aborted, superseded or failed when it is over."""
        return str(self._fields()["phase"])

    def summary(self) -> ReconfigurationSummary:
        """Return what it did so far: steps, bins, bytes, times of the phases, latencies before, during and after."""
        fields = self._fields(self._parts.measured.latencies)
        return ReconfigurationSummary.from_dict(fields)

    def _fields(self, latencies: Latencies | None = None) -> dict[str, Any]:
        """By the journal, or by the history for one that the journal has forgotten."""
        try:
            return summary(self.record, latencies)
        except NotReadyError:
            known = self._parts.changes.coordination.records
            return read_one(self._parts.store, self.id, known)

    def wait(self, timeout: float | None = None) -> Reconfiguration:
        """Wait until it is done.

        Raises:
            RefusedError: it ended otherwise, with the reason.
            NotReadyError: after `timeout` seconds.
            RechannelError: what the job failed with.
        """
        driver, changes = self._parts.driver, self._parts.changes

        def over(position: StreamPosition) -> bool:
            """Whether the job shows that it is over: what it runs under is shown then, too."""
            if driver.finished.is_set():
                return True
            shown = (
                record.id == self.id and not record.open for record in position.coordination.records
            )
            return not changes.coordination.find(self.id).open and any(shown)

        with suppress(NotReadyError):  # it may have been over for long
            driver.wait_for(over, timeout)
        fields = self._fields()
        if (phase := fields["phase"]) in OPEN:
            if (error := failure(self._parts)) is not None:
                raise error
            what = "the job has stopped" if driver.finished.is_set() else f"after {timeout} s"
            msg = f"reconfiguration {self.id} is {phase} ({what})"
            raise NotReadyError(msg)
        if phase != "done":
            msg = f"reconfiguration {self.id} ({fields['change']}) is {phase}: {fields['reason']}"
            raise RefusedError(msg)
        return self

    def abort(self) -> None:
        """End it before it begins, or roll it back. Raises RefusedError."""
        abort(self._parts, self.id, ASKED)

    def _repr_html_(self) -> str:
        return self.summary()._repr_html_()

    def __repr__(self) -> str:
        fields = self._fields()
        return f"<Reconfiguration {self.id}: {fields['change']}, {fields['phase']}>"
