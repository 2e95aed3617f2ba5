"""A dataset as a value."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import ClassVar

from rechannel.errors import DataflowError, RefusedError
from rechannel.sinks.dataset.columns import check_metadata
from rechannel.sinks.dataset.wanted import Wanted
from rechannel.sinks.keyed_changes import check_changes, check_keyed
from rechannel.sinks.keyed_rows import check_keys
from rechannel.sinks.marked import MarkedWriter, mark_name
from rechannel.sinks.marks import Holder
from rechannel.sinks.outlet import Outlet, SinkContext
from rechannel.sinks.writer import SinkWriter


@dataclass(frozen=True, eq=False, kw_only=True)
class DatasetOutlet(Outlet):
    """Parquet files that a manifest names."""

    path: str
    """A directory, or a URL of an object store."""
    wanted: Wanted = field(default_factory=Wanted)
    keeps_rows: ClassVar[bool] = True

    def __post_init__(self) -> None:
        """Check what can be checked without rows. Raises DataflowError."""
        if not self.path.strip():
            raise DataflowError("write.dataset: give a path")
        wanted = self.wanted
        check_keyed("write.dataset", wanted.changes, wanted.keys)
        check_metadata(wanted.metadata)
        apart = [name for name in wanted.partitions if wanted.keys and name not in wanted.keys]
        if apart:
            msg = (
                f"write.dataset: partition column {apart[0]!r} is no key: a row could not take the place of one in"
                " another partition. Make it one of the keys, or leave it out of the partitions"
            )
            raise DataflowError(msg)

    @property
    def partitions(self) -> tuple[str, ...]:
        """Columns by whose values rows get into files of their own."""
        return self.wanted.partitions

    @property
    def place(self) -> str:
        """Return the path, which identifies the sink's place."""
        return self.path.rstrip("/")

    @property
    def takes_newest(self) -> bool:
        """Whether rows are written by their keys, and are no changes."""
        return bool(self.wanted.keys) and not self.wanted.changes

    @property
    def guarantee(self) -> str:
        """Return "exactly once"."""
        return "exactly once"

    def describe(self) -> str:
        """Return path, keys and partitions."""
        wanted = self.wanted
        how = f", by {', '.join(wanted.keys)}" if wanted.keys else ""
        told = f", changes in {wanted.changes}" if wanted.changes else ""
        parts = f", in partitions of {', '.join(wanted.partitions)}" if wanted.partitions else ""
        return f"dataset {self.path}{how}{told}{parts}"

    def open(self, context: SinkContext) -> SinkWriter:
        """Open it. The manifest is read when the driver owns the journal, not before."""
        from rechannel.sinks.dataset.place import DatasetPlace
        from rechannel.sinks.dataset.stores import store_at

        wanted = self.wanted
        if context.schema is not None:
            check_keys(wanted.keys, context.schema, context.label)
            check_changes(wanted.changes, wanted.keys, context.schema, context.label)
            check_metadata(wanted.metadata, context.schema, context.label)
        holder = Holder(
            where=f"dataset {self.path}",
            name=mark_name(context),
            elsewhere="another path",
            stays="rows of the dataset stay",
        )
        try:
            store = store_at(self.path, sync=context.sync)
        except RefusedError as error:
            raise DataflowError(f"sink {context.label!r}: {error}") from error
        place = DatasetPlace(
            wanted=wanted,
            store=store,
            holder=holder,
            token=context.token,
            ledger=context.ledger,
            schema=context.schema,
        )
        return MarkedWriter(place, holder, context)
