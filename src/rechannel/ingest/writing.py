"""Requests to files of a log: several requests in one file, each of them kept once.

A file is created only if it is absent, by a writer that has read all before it. If another server has written file n
meanwhile, the writer reads its head, judges its own requests anew and tries n + 1. So any number of servers may write
one log, and a request that was repeated to another server is still kept once. A writer that has been idle may find
a number free because its file was read and removed: so it looks, after each file, up to where the log was removed.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

import pyarrow as pa

from rechannel.errors import RefusedError
from rechannel.ingest.checkpoints import Known, read_checkpoint, write_checkpoint
from rechannel.ingest.producers import Numbered, Producers, Round, Verdict
from rechannel.sources.ingest.format import Head, Kept, encode
from rechannel.sources.ingest.log import PER_FOLDER, IngestLog

CHECKPOINT_BYTES = 256 << 20


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """Checked rows that a producer has posted."""

    rows: pa.RecordBatch
    numbered: Numbered | None = None
    """None if the producer does not number its requests: then a repetition is kept again."""


Answer = Verdict | RefusedError
"""What became of a request: nothing of a refused one is kept."""


@dataclass(slots=True, kw_only=True)
class LogWriter:
    """Writes a log, next to others that may write it too. For one thread."""

    log: IngestLog
    now_ms: Callable[[], int]
    every: int = PER_FOLDER
    """Most files between two checkpoints."""
    every_bytes: int = CHECKPOINT_BYTES
    """Most bytes of rows between two checkpoints."""
    producers: Producers = field(default_factory=Producers)
    known: Known = field(default_factory=lambda: Known(number=0, rows=0, bytes=0))
    _written: Known = field(default_factory=lambda: Known(number=0, rows=0, bytes=0))
    """The newest checkpoint."""

    def open(self) -> None:
        """Read what was kept, anew. Raises StorageError, DamagedStateError, SourceError if files are missing."""
        self.producers = Producers(self.producers.most)
        self.known = read_checkpoint(self.log.store, self.producers)
        self._written = self.known
        self._learn_up_to(self.log.newest(self.known.number))

    def catch_up(self) -> bool:
        """Read what other servers have written since. Returns whether there was anything. Raises StorageError."""
        before = last = self.known.number
        while self.log.exists(last + 1):
            last += 1
        if 0 < last <= self.log.removed():
            self.open()  # what follows was read and removed meanwhile
        else:
            self._learn_up_to(last)
        return self.known.number > before

    def last(self, producer: str) -> Kept | None:
        """Return the last request of a producer that any server has kept. Raises StorageError."""
        self.catch_up()
        return self.producers.last(producer)

    def keep(self, requests: Sequence[Request]) -> list[Answer]:
        """Keep requests in one file, durably. Returns what became of each.

        Raises StorageError if the store fails: whether the requests were kept is then not known. The next call finds
        it out.
        """
        while True:
            round_ = Round(self.producers)
            answers = [_judged(round_, one) for one in requests]
            new = [
                one.rows
                for one, answer in zip(requests, answers, strict=True)
                if answer is Verdict.NEW
            ]
            if any(isinstance(each, RefusedError) for each in answers) and self.catch_up():
                continue  # another server may have kept what seems to be missing
            if not new:
                return answers
            rows = new[0] if len(new) == 1 else pa.concat_batches(new)
            head = Head(
                log=self.log.identity.id,
                number=self.known.number + 1,
                rows_before=self.known.rows,
                rows=rows.num_rows,
                bytes_before=self.known.bytes,
                bytes=rows.nbytes,
                time_ms=self.now_ms(),
                producers=round_.kept,
            )
            if not self.log.create(head, encode(head, rows)):
                self.catch_up()
            elif self.log.removed() < head.number:
                self._learn(head)
                return answers
            else:
                # There was a file of this number, which jobs have read: they never read this one.
                self.log.forget(head.number)
                self.open()

    def checkpoint(self) -> bool:
        """Write down what is known, if enough files have come since. Returns whether it did. Raises StorageError."""
        files = self.known.number - self._written.number
        if files < self.every and self.known.bytes - self._written.bytes < self.every_bytes:
            return False
        write_checkpoint(self.log.store, self.log.identity.id, self.known, self.producers)
        self._written = self.known
        return True

    def _learn_up_to(self, last: int) -> None:
        """Learn the next files, once their names are durable: what is known may be acknowledged."""
        self.log.settle(self.known.number + 1, last)
        for number in range(self.known.number + 1, last + 1):
            self._learn(self.log.head(number))

    def _learn(self, head: Head) -> None:
        self.producers.learn(head.producers)
        self.known = replace(
            self.known, number=head.number, rows=head.rows_after, bytes=head.bytes_after
        )


def _judged(round_: Round, one: Request) -> Answer:
    if one.numbered is None:
        return Verdict.NEW
    try:
        return round_.judge(one.numbered)
    except RefusedError as error:
        return error
