"""Try migrations on the existing state before a change begins.

Once a change has begun, a migration that fails ends the job: some state has its new columns already, and the function
that converts the rest fails. Then only a new start can continue or revert. So before that, all live state is read once
and converted, piece by piece, and the result is discarded. Timesteps continue meanwhile, in their own tasks.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from rechannel.engine.program.versions import Program
from rechannel.errors import MissingFileError, UserFunctionError
from rechannel.kernels.lsm.scan import scan
from rechannel.kernels.protocol.migrate import ADVICE
from rechannel.kernels.protocol.program import StageProgram, TaskState
from rechannel.model.eventtime import Clock
from rechannel.model.hashspace import Intervals
from rechannel.model.routing import Routing
from rechannel.state.keys import timestep_of
from rechannel.state.manifest import Manifest
from rechannel.state.run import Run
from rechannel.state.segments.segment import forget_segments

PIECE_ROWS = 500_000
"""Rows that are held in memory at a time, about."""

SECONDS = 60.0
"""Longest time that a change waits for its rehearsal; rows that were not tried by then are reported."""

LAST_SECONDS = 5.0
"""Longest time that the stream waits, at the timestep boundary, for a rehearsal on the state written since."""

ATTEMPTS = 3
"""Most attempts for a piece whose files timesteps merge and delete while it is read."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Rehearsal:
    """How much state the migrations were tried on."""

    rows: int
    """Stored rows that were converted, approximately."""
    of: int
    """Stored rows in total."""

    def to_json(self) -> dict[str, int]:
        """Plain JSON values, for the facts of a preparation."""
        return {"migrated_rows": self.rows, "migrated_of": self.of}


def migrating_programs(new: Program, old: Program) -> tuple[StageProgram, ...]:
    """Programs of operators whose stored state the new version reads through other migrations than the old one."""
    made = (new.programs[stage.name] for stage in new.plan.stateful)
    return tuple(
        program
        for program in made
        if program.migrations
        and new.record["migrations"].get(program.operator)
        != old.record["migrations"].get(program.operator)
    )


def rehearse(
    programs: tuple[StageProgram, ...],
    manifests: Mapping[str, Manifest],
    clock: Callable[[str], Clock],
    tick: Callable[[], float],
    *,
    since: int = 0,
    seconds: float = SECONDS,
    piece_rows: int = PIECE_ROWS,
) -> Rehearsal:
    """Convert as much state of operators as there is time for. Raises UserFunctionError naming operator and file.

    manifests: always the present ones. clock: times as of which the state of an operator is read. tick: a clock in
    seconds. since: only runs of this timestep or later.
    """
    until = tick() + seconds
    tried = total = 0.0
    for program in programs:
        rows = sum(run.expected for run in _runs(manifests, program, since))
        pieces = max(1, int(rows // piece_rows) + 1)
        routing = Routing.even(bins=pieces, tasks=pieces)
        total += rows
        try:
            for number in range(pieces):
                if tick() >= until:
                    break
                if _convert(program, manifests, routing.intervals_of(number), clock, since):
                    tried += rows / pieces
        finally:
            # A driver reads state here once, and would keep its files open.
            forget_segments(program.store)
    return Rehearsal(rows=round(tried), of=round(total))


def _convert(
    program: StageProgram,
    manifests: Mapping[str, Manifest],
    own: Intervals,
    clock: Callable[[str], Clock],
    since: int,
) -> bool:
    """Convert the state of some hashes; returns False if its files were deleted at each attempt."""
    for _ in range(ATTEMPTS):
        runs = _runs(manifests, program, since, own)
        try:
            scan(program, TaskState(own=own, runs=runs), clock(program.operator))
        except MissingFileError:
            continue
        except UserFunctionError as error:
            # Advice for a failure after the change has begun does not apply here.
            msg = str(error).removesuffix(ADVICE)
            raise UserFunctionError(msg) from error
        return True
    return False


def _runs(
    manifests: Mapping[str, Manifest],
    program: StageProgram,
    since: int,
    own: Intervals | None = None,
) -> tuple[Run, ...]:
    name = program.operator
    manifest = manifests[name] if name in manifests else Manifest()
    runs = manifest.state if own is None else manifest.within(own)
    return tuple(run for run in runs if (timestep_of(run.segment) or 0) >= since)
