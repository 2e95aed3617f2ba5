"""One sink's queue of committed timesteps: tried in order, in a thread of its own where there are threads."""

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
from rechannel.engine.stages.sink_rows import Meaning, RowsOf, as_it_is, kept_for
from rechannel.sinks.batch import Batch
from rechannel.sinks.failure import OnFailure, Verdict
from rechannel.sinks.spare import WithDeadLetters, spent
from rechannel.sinks.writer import Rows, SinkWriter, Staged

_LOG = logging.getLogger(__name__)


@dataclass(frozen=True, kw_only=True)
class Work:
    """One committed timestep for one sink.

    staged: result from before the commit; None = `rows` makes the rows, and they are staged first.
    journalled: whether the journal waits to hear of it. again: a second time, after a restart.
    """

    batch: Batch
    staged: Staged | None
    rows: Callable[[], Rows] | None
    journalled: bool
    again: bool = False


@dataclass(kw_only=True, eq=False)
class Lane:
    """One incarnation of a sink. Everything but `attempt` is done under the publisher's lock.

    who: its incarnation. failures: failed attempts at the first timestep that waits. quarantine: why it takes nothing
    now. put_off: the job ends, and what it owes is left to the next start. last: the latest timestep that it was given.
    """

    sink: SinkPlan
    writer: SinkWriter
    who: str
    journal: Journal
    meaning: Meaning = as_it_is
    work: deque[Work] = field(default_factory=deque)
    failures: int = 0
    trouble: str = ""
    quarantine: str = ""
    put_off: bool = False
    leaving: bool = False
    last: int = 0
    thread: threading.Thread | None = None
    spent: list[SinkWriter] = field(default_factory=list)

    @property
    def name(self) -> str:
        """Name of the sink."""
        return self.sink.sink.name

    @property
    def policy(self) -> OnFailure:
        """What its user chose."""
        return self.sink.sink.failure

    @property
    def key(self) -> str:
        """Under which notes know the sink; journals of before know names only."""
        return self.who or self.name

    def batch(self, timestep: int) -> Batch:
        """What an open or a committed timestep is to this sink."""
        digest = self.journal.state.digest(timestep)
        return Batch(timestep=timestep, incarnation=self.who, digest=digest)

    def from_journal(self, rows_of: RowsOf, timestep: int, what: Mapping[str, Any]) -> Work:
        """What an earlier driver staged for this sink and did not see published.

        Journals of before do not name digests, nor did what published them leave marks: "" stands for both.
        """
        batch = replace(self.batch(timestep), digest=what.get("digest", ""))
        if "outbox" in what:
            kept = {node: list(keys) for node, keys in what["outbox"].items()}
            rows = partial(rows_of, self.sink, None, kept)
            return Work(batch=batch, staged=None, rows=rows, journalled=True, again=True)
        return Work(batch=batch, staged=what["staged"], rows=None, journalled=True, again=True)

    def committed(
        self,
        rows_of: RowsOf,
        timestep: int,
        kept: Mapping[str, list[str]],
        what: Mapping[str, Any] | None,
        held: Staged | None,
    ) -> Work:
        """What was just committed. what: its name in the commit. held: what was staged and is not named there."""
        batch, journalled = self.batch(timestep), what is not None
        if self.sink.direct:
            staged = held if what is None else what["staged"]
            return Work(batch=batch, staged=staged, rows=None, journalled=journalled)
        rows = partial(rows_of, self.sink, None, kept_for(self.sink.frame, kept))
        return Work(batch=batch, staged=None, rows=rows, journalled=journalled)

    def add(self, work: Work) -> bool:
        """Queue a timestep, unless it waits already or the sink takes nothing now."""
        if self.quarantine or self.put_off or work.batch.timestep <= self.last:
            return False
        self.last = work.batch.timestep
        self.work.append(work)
        return True

    def attempt(self, work: Work) -> float:
        """Try a timestep; how long it took, in milliseconds. Raises what the sink raises."""
        began = time.perf_counter()
        staged, writer = work.staged, self.writer
        if isinstance(writer, WithDeadLetters) and writer.buried(work.batch):
            if work.journalled:
                self.told(work.batch, f"dead letters in {writer.path}")
            return (time.perf_counter() - began) * 1e3
        if work.rows is not None:
            staged = writer.stage(work.rows(), work.batch)
        if staged is not None:
            writer.publish(staged, work.batch)
        if work.journalled:
            self.told(work.batch)
        return (time.perf_counter() - began) * 1e3

    def bury(self, work: Work, error: BaseException) -> bool:
        """Write the rows to the sink's dead letters instead; False where it has none, or the rows are gone."""
        writer = self.writer
        if not isinstance(writer, WithDeadLetters) or work.rows is None:
            return False
        if writer.kept(work.batch):  # it was shown; what failed came after that
            if work.journalled:
                self.told(work.batch)
            return True
        where, letters = f"dead letters in {writer.path}", writer.letters
        letters.publish(letters.stage(work.rows(), work.batch), work.batch)
        if work.journalled:
            self.told(work.batch, f"{where}: {said(error)}")
        timestep = work.batch.timestep
        _LOG.warning(
            "timestep %d of sink %r went to %s: %s", timestep, self.name, where, said(error)
        )
        return True

    def told(self, batch: Batch, dropped: str = "") -> None:
        """Let the journal know that a timestep is owed no longer."""
        self.journal.append(
            Published(
                timestep=batch.timestep, sink=self.name, incarnation=self.who, dropped=dropped
            )
        )

    def give_up(self, reason: str) -> None:
        """Owe nothing any more; the journal says which timesteps were never shown."""
        for timestep in owed(self.journal.state, self.name, self.who):
            drop(self.journal, timestep, self.name, self.who, reason)

    def meant(self, error: BaseException, batch: Batch) -> BaseException:
        """What an error of an attempt stands for."""
        return self.meaning(error, self.name, batch.timestep)

    def judged(self, error: BaseException) -> Verdict:
        """Count a failed attempt at the first timestep that waits, and say what is next."""
        self.failures += 1
        self.trouble = said(error)
        return self.policy.verdict(self.failures, error)

    def take(self, sink: SinkPlan, writer: SinkWriter) -> None:
        """Go on as another version has it. What only the writer before has open may be in use still."""
        if writer is not self.writer:
            self.spent += spent(self.writer, writer)
        self.sink, self.writer = sink, writer

    def close(self) -> None:
        """Close the writer, and what was left of those before it."""
        for each in (self.writer, *self.spent):
            each.close()

    def standing(self) -> dict[str, Any]:
        """Timesteps that it owes, the oldest, failed attempts at it, the error, why it is in quarantine."""
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
        """The first timestep that waits waits no longer."""
        if self.work:
            self.work.popleft()
        self.failures, self.trouble = 0, ""


def drop(journal: Journal, timestep: int, sink: str, who: str, reason: str) -> None:
    """Nobody shows this any more, and no namesake gets it; the journal says why."""
    _LOG.warning("timestep %d was not shown by sink %r: %s", timestep, sink, reason)
    journal.append(Published(timestep=timestep, sink=sink, incarnation=who, dropped=reason))


def said(error: BaseException) -> str:
    """An error in one line."""
    first = str(error).strip().partition("\n")[0]
    return f"{type(error).__name__}: {first[:300]}"
