"""One sink's queue of committed timesteps, published in order, in a thread of its own if publishing is threaded."""

from __future__ import annotations

import logging
import threading
import time
from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

from rechannel.engine.journal.entries import Published
from rechannel.engine.journal.log import Journal
from rechannel.engine.journal.quarantine import owed
from rechannel.engine.program.physical import SinkPlan
from rechannel.engine.stages.sink_rows import (
    Columns,
    Meaning,
    RowsOf,
    as_it_is,
    as_kept,
    kept_for,
    owed_rows,
)
from rechannel.errors import RefusedError
from rechannel.logs import fields
from rechannel.sinks.batch import Batch
from rechannel.sinks.failure import OnFailure, Verdict
from rechannel.sinks.spare import WithDeadLetters, spent
from rechannel.sinks.writer import Rows, SinkWriter, Staged

_LOG = logging.getLogger("rechannel")


@dataclass(frozen=True, kw_only=True)
class Work:
    """One committed timestep for one sink."""

    batch: Batch
    staged: Staged | None
    """What was staged before the commit; None means that `rows` is staged first."""
    rows: Callable[[], Rows] | None
    """Makes the rows; None if they were staged before the commit."""
    journalled: bool
    """Whether the journal records the publication."""
    again: bool = False
    """Whether this is a second publication, after a restart."""


@dataclass(kw_only=True, eq=False)
class Lane:
    """One incarnation of a sink. The publisher holds its lock for all calls but `attempt`."""

    sink: SinkPlan
    writer: SinkWriter
    who: str
    """Incarnation of the sink."""
    journal: Journal
    meaning: Meaning = as_it_is
    """Translates errors of attempts."""
    work: deque[Work] = field(default_factory=deque)
    """Timesteps that wait, oldest first."""
    failures: int = 0
    """Failed attempts at the first timestep that waits."""
    trouble: str = ""
    """The last error of such an attempt, in one line."""
    quarantine: str = ""
    """Why the sink accepts no timesteps now; empty if it does."""
    put_off: bool = False
    """Whether the job ends and leaves what the sink owes to the next start."""
    leaving: bool = False
    """Whether the sink is no longer part of the program."""
    last: int = 0
    """The latest timestep that was queued."""
    thread: threading.Thread | None = None
    spent: list[SinkWriter] = field(default_factory=list)
    """Earlier writers that may still be in use."""

    @property
    def name(self) -> str:
        """Name of the sink."""
        return self.sink.sink.name

    @property
    def policy(self) -> OnFailure:
        """What happens if it cannot write, as the user chose."""
        return self.sink.sink.failure

    @property
    def key(self) -> str:
        """Key of the sink in the journal's notes: its incarnation, or its name in older journals."""
        return self.who or self.name

    def batch(self, timestep: int) -> Batch:
        """Return the batch that an open or committed timestep is to this sink."""
        digest = self.journal.state.digest(timestep)
        return Batch(timestep=timestep, incarnation=self.who, digest=digest)

    def from_journal(
        self, rows_of: RowsOf, columns: Columns, timestep: int, what: Mapping[str, Any]
    ) -> Work:
        """Return the work that an earlier driver staged for this sink and did not record as published.

        columns: of sink-buffer files.

        Older journals have no digests, and older publications left no markers: both are "" then.
        """
        batch = replace(self.batch(timestep), digest=what.get("digest", ""))
        if "outbox" in what:
            kept = {node: list(keys) for node, keys in what["outbox"].items()}
            sink = self._sink_of(kept, what, timestep)
            rows = partial(owed_rows, rows_of, sink, timestep, kept, columns)
            return Work(batch=batch, staged=None, rows=rows, journalled=True, again=True)
        return Work(batch=batch, staged=what["staged"], rows=None, journalled=True, again=True)

    def _sink_of(
        self, kept: Mapping[str, list[str]], what: Mapping[str, Any], timestep: int
    ) -> SinkPlan:
        """Return the sink as it was when a timestep was committed: it may have read other nodes then.

        Raises RefusedError if its rows were made by a DataFrame function, of which the journal knows nothing.
        """
        if kept.keys() == kept_for(self.sink.frame, {}).keys() or not any(kept.values()):
            return self.sink
        if what.get("derived"):
            msg = (
                f"sink {self.name!r} still has to write timestep {timestep}, whose rows a DataFrame function makes of"
                f" {sorted(kept)}, which it no longer reads: start once with the program of then, or give the rows up"
                " with `rechannel repair`"
            )
            raise RefusedError(msg)
        return as_kept(self.sink, kept)

    def committed(
        self,
        rows_of: RowsOf,
        timestep: int,
        kept: Mapping[str, list[str]],
        what: Mapping[str, Any] | None,
        held: Staged | None,
    ) -> Work:
        """Return the work of a timestep just committed.

        what: the sink's entry in the commit; None if it has none. held: what was staged without such an entry.
        """
        batch, journalled = self.batch(timestep), what is not None
        if self.sink.direct:
            staged = held if what is None else what["staged"]
            return Work(batch=batch, staged=staged, rows=None, journalled=journalled)
        rows = partial(rows_of, self.sink, None, kept_for(self.sink.frame, kept))
        return Work(batch=batch, staged=None, rows=rows, journalled=journalled)

    def add(self, work: Work) -> bool:
        """Queue a timestep, unless it is queued already or the sink accepts none now. Returns whether it was queued."""
        if self.quarantine or self.put_off or work.batch.timestep <= self.last:
            return False
        self.last = work.batch.timestep
        self.work.append(work)
        return True

    def attempt(self, work: Work) -> float:
        """Publish a timestep. Returns the duration in milliseconds; raises what the sink raises."""
        began = time.perf_counter()
        staged, writer = work.staged, self.writer
        before = work.again or self.failures > 0  # only then it may have become dead letters
        if isinstance(writer, WithDeadLetters) and before and writer.buried(work.batch):
            if work.journalled:
                self.record(work.batch, f"dead letters in {writer.path}")
            return (time.perf_counter() - began) * 1e3
        if work.rows is not None:
            staged = writer.stage(work.rows(), work.batch)
        if staged is not None:
            writer.publish(staged, work.batch)
        if work.journalled:
            self.record(work.batch)
        return (time.perf_counter() - began) * 1e3

    def bury(self, work: Work, error: BaseException) -> bool:
        """Write the rows to the sink's dead letters instead. Returns False if it has none, or the rows are gone."""
        writer = self.writer
        if not isinstance(writer, WithDeadLetters) or work.rows is None:
            return False
        if writer.kept(work.batch):  # it was published, and a later step failed
            if work.journalled:
                self.record(work.batch)
            return True
        where, letters = f"dead letters in {writer.path}", writer.letters
        letters.publish(letters.stage(work.rows(), work.batch), work.batch)
        if work.journalled:
            self.record(work.batch, f"{where}: {one_line(error)}")
        timestep = work.batch.timestep
        _LOG.warning(
            "timestep %d of sink %r was written to %s: %s",
            timestep,
            self.name,
            where,
            one_line(error),
            extra=fields(
                "timestep_to_dead_letters",
                sink=self.name,
                timestep=timestep,
                reason=one_line(error),
            ),
        )
        return True

    def record(self, batch: Batch, dropped: str = "") -> None:
        """Journal that the sink no longer owes a timestep. dropped: why it was given up, if it was."""
        self.journal.append(
            Published(
                timestep=batch.timestep, sink=self.name, incarnation=self.who, dropped=dropped
            )
        )

    def give_up(self, reason: str) -> None:
        """Give up all timesteps that the sink owes; the journal records them as dropped."""
        for timestep in owed(self.journal.state, self.name, self.who):
            drop(self.journal, timestep, self.name, self.who, reason)

    def meant(self, error: BaseException, batch: Batch) -> BaseException:
        """Translate an error of an attempt."""
        return self.meaning(error, self.name, batch.timestep)

    def judged(self, error: BaseException) -> Verdict:
        """Count a failed attempt at the first timestep that waits. Returns what happens next."""
        self.failures += 1
        self.trouble = one_line(error)
        return self.policy.verdict(self.failures, error)

    def take(self, sink: SinkPlan, writer: SinkWriter) -> None:
        """Continue with the plan and writer of another version. What only the old writer has open may be in use."""
        if writer is not self.writer:
            self.spent += spent(self.writer, writer)
        self.sink, self.writer = sink, writer

    def close(self) -> None:
        """Close the writer and earlier ones."""
        for each in (self.writer, *self.spent):
            try:
                each.close()
            except Exception as error:
                _LOG.warning(
                    "sink %r is no longer used and could not be closed: %s",
                    self.name,
                    one_line(error),
                    extra=fields("not_closed", sink=self.name, reason=error),
                )

    def standing(self) -> dict[str, Any]:
        """Return the timesteps that it owes, the oldest, failed attempts, the error, the reason of a quarantine."""
        waiting = [work.batch.timestep for work in self.work]
        if self.quarantine or self.put_off:
            waiting = list(owed(self.journal.state, self.name, self.who))
        return {
            "owed": len(waiting),
            "oldest": min(waiting, default=None),
            "failures": self.failures,
            "error": self.trouble or None,
            "quarantine": self.quarantine or None,
        }

    def done(self) -> None:
        """Remove the first timestep that waits."""
        if self.work:
            self.work.popleft()
        self.failures, self.trouble = 0, ""


def drop(journal: Journal, timestep: int, sink: str, who: str, reason: str) -> None:
    """Journal that this incarnation of the sink (`who`) never publishes the timestep, and log why."""
    _LOG.warning(
        "sink %r did not publish timestep %d: %s",
        sink,
        timestep,
        reason,
        extra=fields("timestep_not_published", sink=sink, timestep=timestep, reason=reason),
    )
    journal.append(Published(timestep=timestep, sink=sink, incarnation=who, dropped=reason))


def one_line(error: BaseException) -> str:
    """Return an error in one line."""
    first = str(error).strip().partition("\n")[0]
    return f"{type(error).__name__}: {first[:300]}"
