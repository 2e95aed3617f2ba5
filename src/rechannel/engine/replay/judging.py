"""Read what was committed and what a replay made, and say how they differ."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc

from rechannel.engine.journal.kept import Version
from rechannel.engine.replay.comparing import Difference, difference, examples
from rechannel.engine.stages.sink_buffers import sink_buffer_tables
from rechannel.kernels.lsm.scan import canonical
from rechannel.kernels.protocol.program import StageProgram, TaskState
from rechannel.model.routing import Routing
from rechannel.replayed import ReplayedRows, ReplayedState
from rechannel.state.manifest import Manifest
from rechannel.state.store import Store

ROWS_PER_PIECE = 1_000_000
"""State is compared in pieces of about this many rows."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Shown:
    """How many of the rows that differ are shown, of every node and operator and on either side."""

    rows: int = 10
    bytes: int = 1 << 20


@dataclass(frozen=True, slots=True, kw_only=True)
class Side:
    """One side of a comparison: a version, and where its files are."""

    version: Version
    store: Store

    def rows(self, node: str) -> pa.Table | None:
        """Return the kept rows of a node; None if there are no files, so that the columns are not known either."""
        batches = list(sink_buffer_tables(self.store, self.version.outbox.get(node, ())))
        return pa.Table.from_batches(batches) if batches else None

    def expected(self, operator: str) -> float:
        """Return about how many rows of state an operator has."""
        return sum(run.expected for run in self._manifest(operator).state)

    def state(self, program: StageProgram, routing: Routing) -> Iterator[pa.Table]:
        """Yield the state of an operator as stored, by task of a routing. program: reads the store of this side."""
        manifest = self._manifest(program.operator)
        for task in range(routing.tasks):
            own = routing.intervals_of(task)
            part = TaskState(own=own, runs=manifest.within(own))
            yield canonical(program, part, self.version.clock(program.operator))

    def _manifest(self, operator: str) -> Manifest:
        return self.version.manifests.get(operator, Manifest())


def output_difference(
    timestep: int, node: str, sinks: tuple[str, ...], sides: tuple[Side, Side], shown: Shown
) -> ReplayedRows:
    """Return how the kept rows of a node differ. sides: as committed, and as replayed."""
    then, now = (side.rows(node) for side in sides)
    if then is None:
        then = now.slice(0, 0) if now is not None else pa.table({})
    found = difference(then, then.slice(0, 0) if now is None else now)
    return ReplayedRows(
        timestep=timestep,
        node=node,
        sinks=sinks,
        equal=found.equal,
        missing=found.left.num_rows,
        added=found.right.num_rows,
        missing_rows=examples(found.left, shown.rows, shown.bytes),
        added_rows=examples(found.right, shown.rows, shown.bytes),
    )


def state_difference(
    programs: tuple[StageProgram, StageProgram], sides: tuple[Side, Side], shown: Shown
) -> ReplayedState:
    """Return how the state of an operator differs. programs, sides: as committed, and as replayed."""
    operator = programs[0].operator
    rows = max(side.expected(operator) for side in sides)
    pieces = int(rows // ROWS_PER_PIECE) + 1
    routing = Routing.even(bins=pieces, tasks=pieces)
    then, now = (
        side.state(program, routing) for program, side in zip(programs, sides, strict=True)
    )
    found = [difference(left, right) for left, right in zip(then, now, strict=True)]
    return ReplayedState(
        operator=operator,
        keys=sum(map(_keys, found)),
        equal=sum(one.equal for one in found),
        missing=sum(one.left.num_rows for one in found),
        added=sum(one.right.num_rows for one in found),
        missing_rows=_first([one.left for one in found], shown),
        added_rows=_first([one.right for one in found], shown),
    )


def _keys(found: Difference) -> int:
    """Return how many keys have rows that differ: keys are told apart by their hashes, the first column."""
    chunks = [*found.left.column(0).chunks, *found.right.column(0).chunks]
    hashes = pa.chunked_array(chunks, pa.uint64())
    return int(pc.count_distinct(hashes).as_py())


def _first(tables: Sequence[pa.Table], shown: Shown) -> tuple[dict[str, object], ...]:
    left = [rows.slice(0, shown.rows) for rows in tables if rows.num_rows]
    if not left:
        return ()
    return examples(pa.concat_tables(left).drop_columns(["_hash"]), shown.rows, shown.bytes)
