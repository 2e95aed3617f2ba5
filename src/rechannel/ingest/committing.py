"""The thread that writes: what has arrived while it wrote a file goes into the next one (group commit)."""

from __future__ import annotations

import logging
import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from rechannel.errors import NotReadyError, RechannelError, StorageError, one_sentence
from rechannel.ingest.producers import Verdict
from rechannel.ingest.writing import Answer, LogWriter, Request
from rechannel.logs import fields
from rechannel.sources.ingest.format import Kept

_LOG = logging.getLogger("rechannel")

FILE_BYTES = 32 << 20
"""Bytes of rows after which a file is full; one request always fits."""

LINGER_S = 0.002
"""How long a file waits for more requests."""

MOST_WAITING = 10_000
"""Requests that wait, besides the bound on their bytes: each takes some memory, however small its rows are."""

TROUBLE_S = 10.0
"""How long a trouble is shown after the last failure."""

Outcome = Answer | RechannelError | Kept | None
Done = Callable[[list[tuple["Item", Outcome]]], None]


@dataclass(slots=True, kw_only=True, eq=False)
class Item:
    """Something to do for a request: rows to keep, or a producer to look up."""

    request: Request | None = None
    producer: str | None = None
    tag: object = None
    """Of the caller."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Standing:
    """How the log and its server are."""

    number: int
    """Of the last file."""
    rows: int
    """Of the log."""
    trouble: str | None
    """Why a file could not be written, or that one takes longer than `TROUBLE_S`; None if the last one could, or if
    none was tried for `TROUBLE_S`: a balancer that sends no more requests because of a trouble would otherwise never
    learn that it is over.
    """
    waiting: int
    """Requests that are not answered yet."""
    producers: int


@dataclass(slots=True, kw_only=True, eq=False)
class Committer:
    """Keeps requests, group by group, until it is closed."""

    writer: LogWriter
    done: Done
    """Called in the thread with what became of each request of a group."""
    linger_s: float = LINGER_S
    clock: Callable[[], float] = time.monotonic
    """Returns seconds; only differences count."""
    file_bytes: int = FILE_BYTES
    _queue: deque[Item] = field(default_factory=deque)
    _changed: threading.Condition = field(default_factory=threading.Condition)
    _closed: bool = False
    _busy: int = 0
    _trouble: str | None = None
    _failed_at: float = 0.0
    _begun_at: float = 0.0
    """When the present group began."""
    _thread: threading.Thread | None = None

    def start(self) -> None:
        """Start the thread."""
        self._thread = threading.Thread(
            target=self._run, name="rechannel-ingest-commit", daemon=True
        )
        self._thread.start()

    def submit(self, item: Item) -> None:
        """Have something done. Raises NotReadyError if the server ends, or too much waits."""
        with self._changed:
            if self._closed:
                raise NotReadyError("the server is stopping: send the request again")
            if len(self._queue) >= MOST_WAITING:
                msg = f"{MOST_WAITING:,} requests wait for the store already: send this one again"
                raise NotReadyError(msg)
            self._queue.append(item)
            self._changed.notify()

    def close(self, timeout_s: float | None = None) -> bool:
        """Do what was submitted, and end. Returns whether it has ended in time."""
        with self._changed:
            self._closed = True
            self._changed.notify()
        if self._thread is not None:
            self._thread.join(timeout_s)
            return not self._thread.is_alive()
        return True

    @property
    def alive(self) -> bool:
        """Whether the thread runs."""
        return self._thread is not None and self._thread.is_alive()

    @property
    def standing(self) -> Standing:
        """How it is."""
        known, now = self.writer.known, self.clock()
        trouble = self._trouble if now - self._failed_at < TROUBLE_S else None
        if self._busy and now - self._begun_at > TROUBLE_S:
            trouble = f"the store has not answered for {now - self._begun_at:.0f} s"
        return Standing(
            number=known.number,
            rows=known.rows,
            trouble=trouble,
            waiting=len(self._queue) + self._busy,
            producers=len(self.writer.producers),
        )

    def _run(self) -> None:
        while group := self._next():
            self._begun_at, self._busy = self.clock(), len(group)
            try:
                outcomes = self._outcomes(group)
            except Exception as error:
                _LOG.exception("ingest: a group of requests failed", extra=fields("ingest_failed"))
                self._trouble, self._failed_at = one_sentence(error), self.clock()
                failed = RechannelError(f"the server failed: {one_sentence(error)}")
                outcomes = [(item, failed) for item in group]
            self._busy = 0
            self.done(outcomes)
            self._write_down()

    def _next(self) -> list[Item]:
        """Wait for a group; an empty one is the end."""
        with self._changed:
            while not self._queue and not self._closed:
                self._changed.wait()
            waited = self._closed
        if not waited and self.linger_s:
            time.sleep(self.linger_s)
        group, size = list[Item](), 0
        with self._changed:
            while self._queue:
                request = self._queue[0].request
                size += 0 if request is None else request.rows.nbytes
                if group and size > self.file_bytes:
                    break
                group.append(self._queue.popleft())
        return group

    def _outcomes(self, group: Sequence[Item]) -> list[tuple[Item, Outcome]]:
        posted = [item for item in group if item.request is not None]
        asked = [item for item in group if item.request is None]
        try:
            answers = self.writer.keep([item.request for item in posted if item.request])
            looked = [self.writer.last(item.producer or "") for item in asked]
        except StorageError as error:
            self._failed(error)
            return [(item, error) for item in group]
        if Verdict.NEW in answers and self._trouble is not None:
            _LOG.warning("ingest: the log is written again", extra=fields("ingest_works"))
            self._trouble = None
        return [*zip(posted, answers, strict=True), *zip(asked, looked, strict=True)]

    def _failed(self, error: StorageError) -> None:
        if self._trouble is None:
            _LOG.warning(
                "ingest: the log cannot be written: %s",
                one_sentence(error),
                extra=fields("ingest_failed", reason=error),
            )
        self._trouble, self._failed_at = one_sentence(error), self.clock()

    def _write_down(self) -> None:
        try:
            self.writer.checkpoint()
        except StorageError as error:
            _LOG.warning(
                "ingest: what is known cannot be written down, and is tried again: %s",
                one_sentence(error),
                extra=fields("ingest_not_noted", reason=error),
            )
