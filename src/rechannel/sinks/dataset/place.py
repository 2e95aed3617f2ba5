"""Writes to a dataset: the rows of a timestep become files, and the next version of the manifest names them.

The mark is in the manifest, so that rows and mark are one step (`marked.py`). A driver takes a dataset over by making a
version with the epoch of its journal entry; of drivers before it, none can make a version after that.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from itertools import count
from pathlib import Path

import pyarrow as pa

from rechannel.errors import RefusedError, StorageError
from rechannel.sinks.claims import STAGING, Ledger
from rechannel.sinks.dataset.background import Background, Pace
from rechannel.sinks.dataset.columns import decoded, encoded, shown, united, with_metadata
from rechannel.sinks.dataset.compacting import Compaction, Names
from rechannel.sinks.dataset.keyed import GONE, run_of, run_schema
from rechannel.sinks.dataset.manifest import (
    NOTHING_YET,
    Described,
    Manifest,
    added,
    opened,
)
from rechannel.sinks.dataset.parquet import Files, Shape, fitted
from rechannel.sinks.dataset.versions import PAGES, VERSIONS, Versions
from rechannel.sinks.dataset.wanted import Wanted
from rechannel.sinks.marked import ConflictError, UncertainError
from rechannel.sinks.marks import Holder, Mark
from rechannel.sinks.writer import Rows
from rechannel.state.store import Store
from rechannel.state.stores.local import directory_of
from rechannel.state.stores.locations import check_remote, sweep_temporaries

_MOST_TIDY_SECONDS = 60.0


def _clock() -> float:
    return time.time() * 1e3


@dataclass(kw_only=True)
class DatasetPlace:
    """One dataset, for one driver."""

    wanted: Wanted
    store: Store
    holder: Holder
    token: str
    ledger: Callable[[], Ledger] | None = None
    schema: pa.Schema | None = None
    """Of the rows, as far as it is known before them."""
    clock: Callable[[], float] = _clock
    threaded: bool = True
    """Whether compaction runs beside publishing; else a test takes its steps."""
    compaction: Compaction | None = None
    """Once the dataset is open."""
    _background: Background | None = None
    _over: int = 0
    """Epoch of the driver from which the dataset was taken over."""
    _numbers: count[int] = field(default_factory=count)

    def __post_init__(self) -> None:
        """Read nothing yet."""
        self.versions = Versions(self.store, self.holder.where)

    def open(self) -> Mark | None:
        """Take the dataset over, or look at it again. See `Place.open`."""
        if self.compaction is None:
            check_remote(self.store)
            manifest = self.versions.open(self._taken_over)
            if self._over < manifest.epoch:
                sweep_temporaries(self.store)
            self.compaction = self._begin(manifest.epoch)
        return _mark(self.versions.look())

    def write(self, rows: Rows, mark: Mark, *, is_new: Callable[[Mark | None], bool]) -> None:
        """See `Place.write`."""
        if not is_new(_mark(self.versions.look())):
            return
        files, columns = self._files(rows, mark)
        if not files.done:
            return

        def edit(before: Manifest) -> Manifest | None:
            if not is_new(_mark(before)):
                return None
            there = encoded(united(decoded(before.columns), columns, self.holder.where))
            return added(
                before,
                files.done,
                timestep=mark.timestep,
                digest=mark.digest,
                columns=there,
                at_ms=int(self.clock()),
            )

        try:
            if self.versions.commit(edit) is None:
                files.discard()
        except ConflictError:
            files.discard()
            raise
        except StorageError as error:
            msg = (
                f"it is not known whether {self.holder.where} has timestep {mark.timestep}: {error}"
            )
            raise UncertainError(msg) from error
        if self._background is not None:
            self._background.wake()

    def close(self) -> None:
        """End the thread."""
        if self._background is not None:
            self._background.close()

    # Taking over -----------------------------------------------------------------------------------

    def _taken_over(self, before: Manifest | None) -> Manifest:
        known = None if self.ledger is None else self.ledger()
        self._check(before, known)
        epoch = 0 if known is None else known.epoch
        if before is not None and (known is None or before.epoch > epoch):
            epoch = before.epoch + 1
        self._over = epoch if before is None else before.epoch
        return opened(
            before,
            owner=self.holder.name,
            epoch=epoch,
            opening="" if known is None else known.opening,
            at_ms=int(self.clock()),
            described=self._described(before),
        )

    def _described(self, before: Manifest | None) -> Described:
        columns = decoded("" if before is None else before.columns)
        if self.schema is not None:
            given = shown(self.schema, self.wanted.metadata, self.wanted.changes)
            columns = united(columns, given, self.holder.where)
        return Described(
            columns=encoded(columns),
            keys=self.wanted.keys,
            partitions=self.wanted.partitions,
            keep_ms=self.wanted.keep_ms,
        )

    def _check(self, before: Manifest | None, known: Ledger | None) -> None:
        """Raise RefusedError if the dataset may not be taken over."""
        where = self.holder.where
        if before is None:
            _check_free(self.store, where)
            return
        if before.owner != self.holder.name:
            msg = f"{where} is that of {before.owner!r}: choose another path"
            raise RefusedError(msg)
        if before.keys != self.wanted.keys or before.partitions != self.wanted.partitions:
            msg = (
                f"{where} has keys {list(before.keys)} and partitions {list(before.partitions)}, and cannot get"
                f" {list(self.wanted.keys)} and {list(self.wanted.partitions)}: choose another path"
            )
            raise RefusedError(msg)
        if known is None:
            return
        mark, strange = _mark(before), _is_strange(before, known)
        other = self.holder.compared(mark, known) is not None or strange
        if other and known.remove_later and before.keys:
            msg = (
                f"{where} has keys, and rows of timesteps that this state directory does not know: they would take"
                " the place of rows that are published from now on, and start(remove_later_output=True) cannot remove"
                " them: choose another path"
            )
            raise RefusedError(msg)
        if strange and not known.remove_later:
            msg = (
                f"{where} was opened by a driver that this state directory does not know, so the directory was"
                " restored from an older copy, or another copy of it is running. Choose another path, restore the"
                " newer state directory, or publish nonetheless, with start(remove_later_output=True)"
            )
            raise RefusedError(msg)

    def _begin(self, epoch: int) -> Compaction:
        pace = Pace(max(1, self.wanted.rate))
        self._names = Names(epoch=epoch, token=self.token, number=self._numbers.__next__)
        compaction = Compaction(
            store=self.store,
            versions=self.versions,
            shape=self._shape,
            policy=self.wanted.policy,
            names=self._names,
            clock=self.clock,
            spend=pace.spend if self.threaded else _nothing,
            merges=self.wanted.rate > 0,
        )
        if self.threaded:
            seconds = min(_MOST_TIDY_SECONDS, self.wanted.keep_ms / 2e3)
            self._background = Background(compaction, pace, self.holder.where, seconds)
            self._background.start()
        return compaction

    # Rows ------------------------------------------------------------------------------------------

    def _shape(self) -> Shape:
        schema = decoded(self.versions.known.columns)
        keyed = bool(self.wanted.keys)
        return Shape(
            schema=run_schema(schema) if keyed else schema,
            partitions=self.wanted.partitions,
            target=self.wanted.target,
            rows=self.wanted.rows,
            compression=self.wanted.compression,
            gone=GONE if keyed else "",
        )

    def _files(self, rows: Rows, mark: Mark) -> tuple[Files, pa.Schema]:
        """Write the rows of a timestep. Returns the files, and the columns that readers see."""
        columns = shown(rows.schema, self.wanted.metadata, self.wanted.changes)
        there = united(decoded(self.versions.known.columns), columns, self.holder.where)
        keyed = bool(self.wanted.keys)
        shape = replace(self._shape(), schema=run_schema(there) if keyed else there)
        files = Files(self.store, shape, self._names.file, (mark.timestep, mark.timestep))
        try:
            for batch in self._run(rows, mark) if keyed else rows.batches():
                more = with_metadata(batch, self.wanted.metadata, mark, int(self.clock()))
                files.add(fitted(more, shape.schema))
            files.close()
        except BaseException:
            files.discard()
            raise
        return files, columns

    def _run(self, rows: Rows, mark: Mark) -> list[pa.RecordBatch]:
        wanted, table = self.wanted, rows.table()
        run = run_of(table, wanted.keys, wanted.changes, mark.timestep, self.holder.where)
        batches: list[pa.RecordBatch] = run.combine_chunks().to_batches()
        return batches


def _is_strange(manifest: Manifest, known: Ledger) -> bool:
    """Return whether a driver wrote it that the journal has never had.

    Epochs do not say it alone: a driver that took over output of another history counts on from there.
    """
    ours = manifest.opening and manifest.opening in known.openings.values()
    return not ours and manifest.epoch > known.epoch


def _nothing(size: int) -> None:
    """Wait for nothing."""


def _mark(manifest: Manifest) -> Mark | None:
    if manifest.timestep == NOTHING_YET:
        return None
    return Mark(manifest.timestep, manifest.digest)


def _check_free(store: Store, where: str) -> None:
    """Raise RefusedError if a file sink writes to the path."""
    local = directory_of(store)
    if local is None:
        return
    books = Path(local.root, STAGING)
    mine = {VERSIONS.split("/")[1], PAGES.split("/")[1]}
    others = (
        [each.name for each in books.iterdir() if each.name not in mine] if books.is_dir() else []
    )
    if others or any(local.root.glob("*=*")):
        whose = f"those of {others[0]}" if others else "and not of a dataset"
        raise RefusedError(f"{where} already holds timesteps, {whose}: choose another path")
