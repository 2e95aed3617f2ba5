"""Edit the state of an operator with a function, while no driver runs.

All rows of the new state are written to segments first, which nothing names. Then one entry of the journal takes them
in place of all runs of the operator. A process that dies before it leaves files that the next driver sweeps, and the
state as it was; one that dies after it is complete. The latest committed timestep is edited; earlier ones that are
kept, and savepoints, are not.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from rechannel.engine.journal import acts
from rechannel.engine.journal.entries import StateEdited
from rechannel.engine.journal.state import JournalState
from rechannel.engine.repair.alone import Hand
from rechannel.errors import NotReadyError, RefusedError, UnknownOperatorError
from rechannel.kernels.lsm.merge import Rows
from rechannel.kernels.lsm.runs import RunWriter
from rechannel.kernels.protocol.program import StageProgram, StageStep, TaskState
from rechannel.kernels.tasks.edit import EditFunction, Touched, edited
from rechannel.model.hashspace import Intervals
from rechannel.model.routing import Routing
from rechannel.operators.checks import suggest
from rechannel.state.manifest import Edit, Manifest
from rechannel.state.merging import BASE_LEVEL
from rechannel.state.run import Run

PIECE_ROWS = 1_000_000
"""Rows that a function is given at a time, about."""
PIECE_BYTES = 128 << 20
"""Their bytes in state, about: a row may be large."""


@dataclass(frozen=True, kw_only=True)
class StateEdit:
    """What is asked for."""

    operator: str
    function: EditFunction
    path: str
    """Import path of the function, for the history."""
    cause: str
    again: bool = False
    """Whether it may be made a second time on the same state."""
    piece_rows: int = PIECE_ROWS
    piece_bytes: int = PIECE_BYTES


def check_edit(asked: StateEdit, state: JournalState, names: list[str]) -> None:
    """Raise RefusedError, NotReadyError or UnknownOperatorError if an edit cannot be made. names: of operators."""
    if state.last_committed is None:
        raise NotReadyError("no timestep is committed yet, so there is no state to edit")
    if asked.operator not in names:
        msg = f"the program has no operator {asked.operator!r} with state{suggest(asked.operator, names)}"
        raise UnknownOperatorError(msg)
    done = _done(asked, state)
    if done and not asked.again:
        msg = (
            f"this edit was made already, and no timestep has been committed since ({done}): to make it once more on"
            " what it made, give again=True"
        )
        raise RefusedError(msg)


def planned(asked: StateEdit, program: StageProgram, state: JournalState) -> Touched:
    """Return what an edit would do. Nothing is written."""
    total = Touched()
    for _, counts, _ in _pieces(asked, program, state):
        total = total.plus(counts)
    return total


def written(
    asked: StateEdit, program: StageProgram, state: JournalState, hand: Hand, by: str
) -> tuple[StateEdited | None, Touched]:
    """Write the new state to files; return the entry that takes it, None if nothing differs.

    Raises UserFunctionError for what the function raises or must not return.
    """
    timestep = state.last_committed or 0
    # Named after the timestep that comes next: a driver that was replaced and still sweeps leaves those alone.
    step = StageStep(timestep=timestep + 1, stream_ms=state.stream_ms)
    manifest = state.manifests.get(asked.operator, Manifest())
    total, add = Touched(), list[Run]()
    for number, (rows, counts, own) in enumerate(_pieces(asked, program, state)):
        writer = RunWriter(program, step, number, f"edit-{hand.id}")
        add += writer.write(rows, own, timestep, BASE_LEVEL)
        total = total.plus(counts)
    if not total:
        return None, total
    seqs = tuple(sorted({run.seq for run in manifest.runs}))
    retire = ((seqs, Intervals.everything()),) if seqs else ()
    body = StateEdited(
        operator=asked.operator,
        timestep=timestep,
        edit=Edit(retire=retire, add=tuple(add)),
        time_ms=hand.clock(),
        function=asked.path,
        by=by,
        rows=(total.changed, total.added, total.removed),
        cause=asked.cause,
    )
    return body, total


def _pieces(
    asked: StateEdit, program: StageProgram, state: JournalState
) -> Iterator[tuple[Rows, Touched, Intervals]]:
    """Yield the new rows of each piece of the hash space."""
    manifest = state.manifests.get(asked.operator, Manifest())
    clock = state.latest.clock(asked.operator)
    rows = sum(run.expected for run in manifest.state) / asked.piece_rows
    size = sum(run.expected_bytes for run in manifest.state) / asked.piece_bytes
    pieces = int(max(rows, size)) + 1
    routing = Routing.even(bins=pieces, tasks=pieces)
    for number in range(pieces):
        own = routing.intervals_of(number)
        task = TaskState(own=own, runs=manifest.within(own))
        made, counts = edited(program, task, clock, asked.function)
        yield made, counts, own


def _done(asked: StateEdit, state: JournalState) -> str:
    """Return what the history says of this edit, if it was made on this state; else ""."""
    begins = f"{acts.edit_of(asked.operator, asked.path)}:"
    for act in acts.acts_of(state.notes):
        here = act["kind"] == acts.EDITED and act["timestep"] == state.last_committed
        what: str = act["what"]
        if here and what.startswith(begins) and act["cause"] == asked.cause:
            return what
    return ""
