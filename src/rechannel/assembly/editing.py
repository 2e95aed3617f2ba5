"""Edit the state of an operator of a job that does not run, by the program that the state directory belongs to."""

from __future__ import annotations

from rechannel.assembly.seams import Seams, Start
from rechannel.assembly.upgrading import program_of
from rechannel.dataflow.graph.nodes import Dataflow
from rechannel.engine.journal.reading import read_only
from rechannel.engine.journal.state import JournalState
from rechannel.engine.program.versions import Program
from rechannel.engine.repair.alone import Hand, append_alone, lease_of
from rechannel.engine.repair.editing import StateEdit, check_edit, planned, written
from rechannel.kernels.tasks.edit import Touched
from rechannel.monitoring import EditedState


def plan_edit(
    seams: Seams, asked: StateEdit, *, name: str, dataflow: Dataflow, start: Start
) -> EditedState:
    """Return what an edit would do. Raises what it would raise."""
    state = read_only(seams.store)
    program = program_of(seams, state, name=name, dataflow=dataflow, start=start)
    check_edit(asked, state, _names(program))
    counts = planned(asked, program.programs[asked.operator], state)
    return _shown(asked, counts, state, done=False)


def edit_state(
    seams: Seams,
    asked: StateEdit,
    hand: Hand,
    by: str,
    *,
    name: str,
    dataflow: Dataflow,
    start: Start,
) -> EditedState:
    """Edit the state. Raises StateInUseError while a driver runs, and what `check_edit` and the function raise."""
    with lease_of(seams.store, hand) as lease, seams.signs(lambda: lease.renew(lambda: None)):
        state = read_only(seams.store)
        program = program_of(seams, state, name=name, dataflow=dataflow, start=start)
        check_edit(asked, state, _names(program))
        body, counts = written(asked, program.programs[asked.operator], state, hand, by)
        append_alone(seams.store, hand, state, [] if body is None else [body])
    return _shown(asked, counts, state, done=body is not None)


def _names(program: Program) -> list[str]:
    return [stage.name for stage in program.plan.stateful]


def _shown(asked: StateEdit, counts: Touched, state: JournalState, *, done: bool) -> EditedState:
    return EditedState(
        operator=asked.operator,
        timestep=state.last_committed or 0,
        changed=counts.changed,
        added=counts.added,
        removed=counts.removed,
        same=counts.same,
        done=done,
    )
