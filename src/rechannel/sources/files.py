"""Files that appear under a path: each is read once, ordered by (time, path) of its arrival.

What a timestep reads is fixed before it starts: the log of files seen (`input_files.seen`) is
written first, then the offset that names it is journalled, with a layout that names every file. A
replay reads the files of the layout and lists no directory again.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa

from rechannel.errors import SchemaDriftError, SessionError, SourceError
from rechannel.logs import fields
from rechannel.model.ddl import columns_text, schema_of
from rechannel.sources.backlog import Backlog, left_of
from rechannel.sources.cutting import cut
from rechannel.sources.input_files.facts import (
    changed,
    refuse_other_size,
    refuse_unreadable,
    stat_of,
    why_changed,
)
from rechannel.sources.input_files.listing import (
    bare,
    hidden,
    is_remote,
    local_files,
    meant_literally,
)
from rechannel.sources.input_files.malformed import line_of, sentence
from rechannel.sources.input_files.parquet import (
    FILE_BITS,
    SPLIT_BYTES,
    FileFacts,
    ParquetSplits,
    check_columns,
    columns_of,
    facts_of,
    readable,
    split_files,
)
from rechannel.sources.input_files.seen import SeenFile, SeenLog, choose, folder_of
from rechannel.sources.reader import UNBOUNDED, Bound, Offset, Split, SplitReader
from rechannel.sources.spark import FileFormat, RemoteFiles, is_damage, malformed_file, split_frame
from rechannel.state.sealed import seal, unseal
from rechannel.state.store import Store

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from rechannel.sources.connectors import FilesConnector

_LOG = logging.getLogger("rechannel")

FORMAT = 1
"""Version of the format of the record of columns; readers reject later ones."""

_SELF_DESCRIBED = ("parquet", "orc", "avro")


class FilesReader:
    """Reads a `FilesConnector`.

    Raises SourceError if columns are not given and there is no file to take them from,
    SessionError if only Spark can read such files and there is no session.
    """

    repeats = False
    boundable = True
    complaint = None
    records = True

    def __init__(
        self,
        connector: FilesConnector,
        *,
        store: Store,
        name: str,
        spark: SparkSession | None = None,
        split_bytes: int = SPLIT_BYTES,
    ) -> None:
        """Find the columns; nothing is written yet. split_bytes: about how large the splits of a
        Parquet file are.
        """
        self._connector = connector
        self._store, self._name, self._spark = store, name, spark
        self._split_bytes = split_bytes
        self._pattern = connector.path
        self._local = not is_remote(connector.path)
        if self._local:
            self._pattern = str(Path(bare(connector.path)).absolute())
            if (place := meant_literally(self._pattern)) is not None:
                _LOG.warning(
                    "source %r: %s exists, but the pattern of the same name does not match it: write [[] for a [",
                    name,
                    place,
                    extra=fields("source_pattern", source=name),
                )
        self._log = SeenLog(store, name)
        self._facts: dict[str, FileFacts] = {}
        self._passed: dict[str, str] = {}
        self._told: set[str] = set()
        self._inferred = connector.schema is None
        self._left: tuple[Offset, Backlog] | None = None
        self.schema = self._find_schema()
        self.native = self._may_be_native() and readable(self.schema)
        if not self.native:
            self._format()

    def initial(self) -> Offset:
        """Return the offset before the first file."""
        return SeenLog.start()

    def latest(self, start: Offset, stream_ms: int, bound: Bound = UNBOUNDED) -> Offset:
        """Return the offset after the files that are new now, at most `per_timestep` of them. See
        `SourceReader`.

        A Parquet file that tasks read themselves may be cut at its row groups: the offset then
        says how many `groups` of the last file were read, and the next timestep continues with the
        others.
        """
        del stream_ms
        self._log.go_to(start)
        most = bound.units or self._connector.per_timestep
        begun = self._begun(start)
        there = choose(self._unseen(), None)
        new = there if most is None else there[: max(0, most - len(begun))]
        self._facts, self._passed, self._left = {}, {}, None
        files = [*begun, *new]
        done = start.get("groups", 0)
        sizes = (
            self._sizes(file, done if number < len(begun) else 0)
            for number, file in enumerate(files)
        )
        taken, stop = cut(sizes, bound.bytes, done)
        sizes_on_disk = [file.size for file in (*begun, *there)]
        if not taken:
            self._left = start, left_of(sizes_on_disk, 0)
            return start
        end = {name: start[name] for name in SeenLog.start()}
        if chosen := new[: taken - len(begun)]:
            self._keep_schema()
            end = self._log.append([self._as_read(file) for file in chosen])
        if skipped := self._skipped(files[:taken]):
            end = {**end, "skipped": skipped}
        end = end if stop is None else {**end, "groups": stop}
        shares = self._share(files[0], done), self._share(files[taken - 1], stop)
        self._left = end, left_of(sizes_on_disk, taken, shares[0] or 0.0, shares[1])
        return end

    def backlog(self, end: Offset, stream_ms: int) -> Backlog | None:
        """Return the bytes on disk that are left; None for an end that the last look has not returned. See
        `Backlogged`.
        """
        del stream_ms
        return self._left[1] if self._left is not None and self._left[0] == end else None

    def _share(self, file: SeenFile, groups: int | None) -> float | None:
        """Return what share of a file its first row groups are; None for all of it, or if it was not looked into."""
        facts = self._facts.get(file.path)
        if not groups or facts is None or not sum(facts.groups):
            return None
        return sum(facts.groups[:groups]) / sum(facts.groups)

    def _skipped(self, files: list[SeenFile]) -> dict[str, str]:
        """Return the files that the timestep skips, with the reason; logged here, and kept with
        the offset.
        """
        skipped = {f.path: self._passed[f.path] for f in files if f.path in self._passed}
        for path, reason in skipped.items():
            _LOG.warning(
                "source %r skips %s: %s",
                self._name,
                path,
                reason,
                extra=fields("file_skipped", source=self._name, reason=reason),
            )
        return skipped

    def _begun(self, start: Offset) -> list[SeenFile]:
        """The file that the timestep before has read in part."""
        return self._log.between(_from(start), start)

    def _as_read(self, file: SeenFile) -> SeenFile:
        """A file as it was when it was looked into, which is later than when it was listed."""
        return self._facts[file.path].seen if file.path in self._facts else file

    def _sizes(self, file: SeenFile, done: int) -> tuple[int, ...]:
        """Bytes of the parts of a file, none of which can be cut; none of a file that is passed over.

        done: parts that the timestep before has read. A file of which there are any must still be the same one: what
        has become of it is no damage that could be passed over.
        """
        connector, path = self._connector, file.path
        if {path, path.rpartition("/")[2]}.intersection(connector.skip):
            self._passed[path] = "it is listed in skip="
            return ()
        try:
            why = why_changed(file, stat_of(path)) if done else None
            sizes = () if why else self._looked_into(file)
        except SourceError as error:
            drift = isinstance(error, SchemaDriftError)
            if connector.on_damage == "fail" or drift or not is_damage(error):
                raise
            self._passed[path] = str(error)
            return ()
        if done and not why and done >= len(sizes):
            why = f"now has {len(sizes)} parts, and {done} were read earlier"
        if why:
            raise changed(path, why)
        return sizes

    def _looked_into(self, file: SeenFile) -> tuple[int, ...]:
        """Return the bytes of the parts.

        Raises SourceError for a file that is missing or damaged, as far as it is checked at this
        point, and StorageError for one that cannot be read now.
        """
        if self.native:
            facts = self._facts[file.path] = facts_of(file.path)
            return facts.groups
        if self._connector.on_damage == "skip":
            if self._local:
                refuse_unreadable(file.path)
            if self._connector.format in _SELF_DESCRIBED:
                self._format().columns(file.path)
        return (file.size,)

    def layout(self, start: Offset, end: Offset) -> list[Split]:
        """Return row groups of Parquet files, whole files of other formats.

        Raises SchemaDriftError if a file that describes itself has other columns, SourceError if
        it cannot be read.
        """
        skipped = end.get("skipped", {})
        every = self._log.between(_from(start), end)
        files = [file for file in every if file.path not in skipped]
        if self.native:
            return split_files(
                (self._facts.get(file.path) or facts_of(file.path) for file in files),
                self.schema,
                self._split_bytes,
                first=start.get("groups", 0) if files[:1] == every[:1] else 0,
                stop=end.get("groups"),
            )
        if self._connector.format in _SELF_DESCRIBED:
            for file in files:
                found = self._format().columns(file.path)
                check_columns(file.path, {f.name: f.type for f in found}, self.schema)
        return [
            {"order": number << FILE_BITS, "file": file.path, "size": file.size}
            for number, file in enumerate(files)
        ]

    def split_reader(self, start: Offset, end: Offset, layout: list[Split]) -> SplitReader:
        """Return the reader of local Parquet files."""
        del start, end, layout
        return ParquetSplits(self.schema)

    def frame(
        self, spark: SparkSession, start: Offset, end: Offset, layout: list[Split]
    ) -> DataFrame:
        """Read the files of the layout through Spark's reader.

        Parquet files with nanoseconds, which Spark refuses, are read through the split reader, and
        so are those of which the timestep reads a part.
        """
        if {"groups"} & (start.keys() | end.keys()) or any("nanos" in split for split in layout):
            return split_frame(spark, self.split_reader(start, end, layout), layout, self.schema)
        self.check_again(start, end, layout)
        return self._format(spark).frame(self.schema, list(_sizes(layout)))

    def check_again(self, start: Offset, end: Offset, layout: list[Split]) -> None:
        """Raise SourceError or StorageError if a local file is gone or has another size."""
        del start, end
        if self._local:
            for file, size in _sizes(layout).items():
                refuse_other_size(file, size)

    def explain(self, error: BaseException) -> SourceError | None:
        """Return what a Spark error says about a record of this source's files, with its line."""
        file = malformed_file(error)
        if file is None or file not in self._log:
            return None
        kind, record = self._connector.format, None
        with suppress(Exception):  # it only adds detail to the message
            record = self._format().malformed(self.schema, file)
        line = None if record is None or not self._local else line_of(file, record)
        return SourceError(sentence(file, kind, record, line))

    def committed(self, end: Offset) -> None:
        """Delete pages of the log that were merged; files are never removed from it."""
        self._log.committed(end)

    def forget(self) -> None:
        """Remove the stored columns: another source of the same name finds its columns itself."""
        if self._connector.schema is None:
            self._store.delete(f"{folder_of(self._name)}schema.json")

    def close(self) -> None:
        """Do nothing: the reader holds no resources."""

    def _unseen(self) -> Iterator[SeenFile]:
        if self._local:
            return local_files(self._pattern, lambda path: path in self._log, self._pass_over)
        remote = RemoteFiles(spark=self._format().spark, pattern=self._pattern)
        return (
            file
            for file in remote.find()
            if file.path not in self._log and not hidden(file.path, self._pattern)
        )

    def _pass_over(self, odd: str) -> None:
        """Warn once about something that matches but is not read."""
        if odd not in self._told:
            self._told.add(odd)
            _LOG.warning(
                "source %r: %s; it is not read",
                self._name,
                odd,
                extra=fields("file_skipped", source=self._name, reason=odd),
            )

    def _may_be_native(self) -> bool:
        connector = self._connector
        return self._local and connector.format == "parquet" and not connector.options

    def _format(self, spark: SparkSession | None = None) -> FileFormat:
        session = spark or self._spark
        if session is None:
            msg = (
                f"source {self._name!r}: only Spark can read {self._connector.describe()}:"
                " give the job a Spark session, or read local Parquet files without options"
            )
            raise SessionError(msg)
        connector = self._connector
        return FileFormat(spark=session, name=connector.format, options=connector.options)

    def _find_schema(self) -> pa.Schema:
        """Return the columns as given, as found by the first start, or as found in the first file."""
        if self._connector.schema is not None:
            return self._connector.schema
        kept = self._kept_schema()
        return self._first_schema() if kept is None else kept

    def _kept_schema(self) -> pa.Schema | None:
        key = f"{folder_of(self._name)}schema.json"
        if key not in self._store.list(key):
            return None
        return schema_of(unseal(self._store.read(key), name=key, newest=FORMAT)["columns"])

    def _keep_schema(self) -> None:
        """Store columns that were found, so that later files cannot change them."""
        if not self._inferred:
            return
        record = {"format": FORMAT, "columns": columns_text(self.schema)}
        self._store.create(f"{folder_of(self._name)}schema.json", seal(record))
        if self._kept_schema() != self.schema:
            msg = (
                f"source {self._name!r}: another start of this job found other columns than"
                f" {columns_text(self.schema)}; start again to use those"
            )
            raise SchemaDriftError(msg)
        self._inferred = False

    def _first_schema(self) -> pa.Schema:
        first = choose(self._unseen(), 1)
        if not first:
            msg = (
                f"source {self._name!r}: no file matches {self._pattern}, so its columns are"
                " unknown: put a first file there, or give schema="
            )
            raise SourceError(msg)
        shown = columns_of(first[0].path) if self._may_be_native() else None
        return shown or self._format().columns(first[0].path)


def _from(start: Offset) -> Offset:
    """Return where the files of a timestep begin: with the one that was read in part, if there is
    one.
    """
    return {**start, "files": start["files"] - ("groups" in start)}


def _sizes(layout: list[Split]) -> dict[str, int]:
    """Return the size of each file of a layout: of a Parquet file that is cut into splits, that is its `bytes`."""
    return {s["file"]: s["bytes"] if "bytes" in s else s["size"] for s in layout}
