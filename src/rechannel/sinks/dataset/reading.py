"""Reading the output of a job: one version of a dataset's manifest, for any tool.

Files that a version names stay readable for as long as the dataset keeps them once they are replaced (an hour, unless
the sink says otherwise). A reader that is slower gets an error about a missing file, never other rows.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from rechannel.errors import MissingFileError, NotReadyError, RefusedError
from rechannel.sinks.dataset.columns import decoded
from rechannel.sinks.dataset.keyed import GONE, TIMESTEP, counting, run_schema
from rechannel.sinks.dataset.manifest import NOTHING_YET, DataFile, Manifest
from rechannel.sinks.dataset.parquet import batches_of
from rechannel.sinks.dataset.stores import address_of, linked, store_at
from rechannel.sinks.dataset.versions import files_of, newest, read_version
from rechannel.sinks.dataset.where import chosen, texts_of
from rechannel.state.store import Store

if TYPE_CHECKING:
    import pandas as pd
    import polars as pl
    import pyarrow.dataset as ds
    from pyspark.sql import DataFrame, SparkSession


@dataclass(frozen=True, kw_only=True)
class Output:
    """The output of a job up to one timestep. It stays the same however the job goes on."""

    path: str
    manifest: Manifest = field(repr=False)
    named: tuple[DataFile, ...] = field(repr=False)
    """Its files."""
    store: Store = field(repr=False)

    @property
    def version(self) -> int:
        """Number of the version."""
        return self.manifest.version

    @property
    def timestep(self) -> int | None:
        """The last timestep that is in it; None if there is none yet."""
        return None if self.manifest.timestep == NOTHING_YET else self.manifest.timestep

    @property
    def keys(self) -> tuple[str, ...]:
        """Columns of which each row has its own values; empty if rows are appended."""
        return self.manifest.keys

    @property
    def schema(self) -> pa.Schema:
        """Columns."""
        return decoded(self.manifest.columns)

    @property
    def is_plain(self) -> bool:
        """Whether its rows are those of its files, all of them: always without keys, with keys after a full merge."""
        spans = {(each.part, each.first, each.last) for each in self.named}
        parts = {part for part, _, _ in spans}
        return not self.keys or (
            len(spans) == len(parts) and not any(each.gone for each in self.named)
        )

    @property
    def files(self) -> list[str]:
        """Paths or URLs of its Parquet files, for any tool that takes a list of files.

        Raises NotReadyError if some of their rows do not count, since rows with their keys came later.
        """
        return [address_of(self.store, each.key) for each in self._plain]

    @property
    def _plain(self) -> tuple[DataFile, ...]:
        """Its files, if all of their rows count. Raises NotReadyError as `files` does."""
        if not self.is_plain:
            msg = (
                f"the files of {self.path} have rows that others with their keys replace: read it with table(),"
                " dataframe(), polars(), pandas() or the text that duckdb() returns"
            )
            raise NotReadyError(msg)
        return self.named

    @property
    def all_files(self) -> list[str]:
        """Paths or URLs of its Parquet files, also of rows that others replace: see `duckdb` for how they count."""
        return [address_of(self.store, each.key) for each in self.named]

    def table(self) -> pa.Table:
        """Return all rows as an Arrow table."""
        schema = run_schema(self.schema) if self.keys else self.schema
        rows = pa.Table.from_batches(batches_of(self.store, self.named, schema), schema)
        return counting(rows, self.keys) if self.keys else rows

    def dataset(self, filesystem: Any = None) -> ds.Dataset:
        """Return a `pyarrow.dataset` of its files. filesystem: as pyarrow has it; None = by the path.

        Raises NotReadyError as `files` does.
        """
        import pyarrow.dataset as ds

        if filesystem is None and "://" in self.path:
            from pyarrow import fs

            filesystem, root = fs.FileSystem.from_uri(self.path)
            paths = [f"{root.rstrip('/')}/{each.key}" for each in self._plain]
        else:
            paths = self.files
        return ds.dataset(paths, schema=self.schema, format="parquet", filesystem=filesystem)

    def polars(self) -> pl.LazyFrame:
        """Return a polars LazyFrame."""
        import polars as pl

        if not self.named or not self.is_plain:
            return pl.LazyFrame(self.table())
        columns = pl.DataFrame(self.schema.empty_table()).schema
        return pl.scan_parquet(
            self.files,
            schema=columns,
            hive_partitioning=False,
            missing_columns="insert",
            extra_columns="ignore",
        )

    def pandas(self) -> pd.DataFrame:
        """Return a pandas DataFrame."""
        return self.table().to_pandas()

    def dataframe(self, spark: SparkSession) -> DataFrame:
        """Return a Spark DataFrame. Executors read the files."""
        from pyspark.sql import functions as F  # noqa: N812
        from pyspark.sql.pandas.types import from_arrow_schema

        schema = run_schema(self.schema) if self.keys else self.schema
        shown = from_arrow_schema(schema)
        paths = self.all_files
        if not paths:
            rows = spark.createDataFrame([], shown)
        else:
            rows = spark.read.schema(shown).parquet(*map(_for_spark, paths))
        if not self.keys:
            return rows
        newest = F.max_by(F.struct(*rows.columns), F.col(TIMESTEP)).alias("_rc_row")
        last = rows.groupBy(*self.keys).agg(newest).select("_rc_row.*")
        return last.where(~F.col(GONE)).drop(TIMESTEP, GONE)

    def link(self, folder: str | os.PathLike[str]) -> str:
        """Make a new folder with its files, for tools that read nothing but folders. Returns the folder.

        Files are hard links if possible, else copies. Raises NotReadyError as `files` does, RefusedError if
        the folder exists.
        """
        return linked(self.store, [each.key for each in self._plain], os.fspath(folder))

    def duckdb(self) -> str:
        """Return a query in DuckDB's SQL that has its rows: `duckdb.sql(output.duckdb())`."""
        if not self.named:
            raise NotReadyError(
                f"{self.path} has no rows yet: read it once the job has published some"
            )
        names = ", ".join("'" + each.replace("'", "''") + "'" for each in self.all_files)
        rows = f"read_parquet([{names}], union_by_name = true, hive_partitioning = false)"
        if not self.keys:
            return f"SELECT * FROM {rows}"
        keys = ", ".join('"' + each.replace('"', '""') + '"' for each in self.keys)
        order = f"row_number() OVER (PARTITION BY {keys} ORDER BY {TIMESTEP} DESC)"
        last = f"SELECT * FROM {rows} QUALIFY {order} = 1"
        return f"SELECT * EXCLUDE ({TIMESTEP}, {GONE}) FROM ({last}) WHERE NOT {GONE}"


def read_output(
    path: str | os.PathLike[str],
    *,
    version: int | None = None,
    where: Mapping[str, object] | None = None,
) -> Output:
    """Return the output that `write.dataset(path)` has published, up to its last timestep.

    Args:
        path: of the dataset, or its URL.
        version: of its manifest; None = the newest one. Versions are kept as long as files are.
        where: values of partition columns, by their names: only files with these rows. Other columns: filter the rows.

    Raises NotReadyError if there is no such version, RefusedError for a column that is not a partition column,
    or a value that it cannot have.
    """
    at = os.fspath(path)
    return output_of(store_at(at), at, version=version, where=where)


def output_of(
    store: Store,
    path: str,
    *,
    version: int | None = None,
    where: Mapping[str, object] | None = None,
) -> Output:
    """Return the output in a store. See `read_output`. path: as errors name it, and as other tools find the files."""
    try:
        found = newest(store) if version is None else read_version(store, version)
    except MissingFileError as error:
        msg = f"{path} has no version {version} of a manifest any more, or not yet"
        raise NotReadyError(msg) from error
    if found is None:
        msg = (
            f"{path} has no manifest: nothing was written there with write.dataset(...) yet. Directories of"
            " timesteps, which other sinks write, are read without it"
        )
        raise NotReadyError(msg)
    _check(where, found)
    texts = texts_of(where or {}, decoded(found.columns))
    files = tuple(each for each in files_of(store, found) if chosen(each.part, texts))
    return Output(path=path.rstrip("/"), manifest=found, named=files, store=store)


def _check(where: Mapping[str, object] | None, manifest: Manifest) -> None:
    for name in where or ():
        if name not in manifest.partitions:
            have = ", ".join(manifest.partitions) or "none"
            raise RefusedError(
                f"where: {name!r} is no partition column of this dataset, which has {have}"
            )


def _for_spark(address: str) -> str:
    """Return an address as Spark takes it."""
    if address.startswith("/"):
        return f"file://{address}"
    return f"s3a://{address[5:]}" if address.startswith("s3://") else address
