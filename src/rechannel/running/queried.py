"""The state of a running job, to read: a part of its handle."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa

from rechannel.assembly import Parts
from rechannel.engine.view.pinned import Hold
from rechannel.engine.view.sql import answer, named
from rechannel.errors import (
    UnknownOperatorError,
)
from rechannel.sinks.memory import MemoryWriter
from rechannel.sinks.spare import main_of

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


class Queried:
    """The part of the handle on a running job that reads state and what memory sinks hold."""

    _parts: Parts

    def state(self, operator: str, *, timestep: int | None = None) -> DataFrame | pa.Table:
        """Return the state of an operator as of the last commit, or of an earlier one that is kept.

        A Spark DataFrame with the operator's output columns; without Spark, an Arrow table. A DataFrame reads
        files of that version, which are kept for `Settings.keep_versions` timesteps: act on it soon, keep
        more versions, or use `sql`, which holds the version for as long as its answer exists.

        Raises:
            UnknownOperatorError: there is no such operator with state.
            NotReadyError: the timestep is not kept.
        """
        with self._hold(timestep) as hold:
            return self._parts.view.frame(operator, hold.state, timestep)

    def state_table(self, operator: str, *, timestep: int | None = None) -> pa.Table:
        """Return the state exactly as stored, in one order, as an Arrow table: for proofs.

        Columns: hash, key and state columns.
        """
        with self._hold(timestep) as hold:
            return self._parts.view.canonical(operator, hold.state, timestep)

    def sql(self, query: str, *, timestep: int | None = None) -> DataFrame | pa.Table:
        """Answer a SQL query over live state, in which every operator with state is a table of its name.

        All tables are of one commit, and have the columns of `state`; only those that the query names are
        read. The stream goes on meanwhile. Names with other characters than letters, digits and "_" stand in
        backticks.

        Args:
            query: SQL of Spark; without Spark, SQL of polars.
            timestep: an earlier commit that is kept; None = the last.

        Returns:
            A Spark DataFrame, in a session of its own; without Spark, an Arrow table.

        Raises:
            UnknownOperatorError, RefusedError: the query is wrong.
            NotReadyError: the timestep is not kept.
        """
        session, view = self._parts.session, self._parts.view
        if session is not None:
            from rechannel.engine.spark import sql

            return sql.answer(session, query, view, lambda: self._hold(timestep), timestep)
        operators = view.operators
        wanted = named(query, operators)
        with self._hold(timestep) as hold:
            tables = view.frames(wanted, hold.state, timestep)
        return answer(query, tables, operators)

    def memory(self, table: str) -> pa.Table:
        """Return everything that a memory sink holds, as one table."""
        for writer in map(main_of, self._parts.switch.current.writers.values()):
            if isinstance(writer, MemoryWriter) and writer.table_name == table:
                return writer.table()
        msg = f"job {self._parts.name!r} has no memory sink {table!r}"
        raise UnknownOperatorError(msg)

    def _hold(self, timestep: int | None) -> Hold:
        return self._parts.held.hold(lambda: self._parts.journal.state, timestep)
