"""What a driver takes up when it starts: intents without commit, commits that are not published, open changes."""

from __future__ import annotations

from functools import partial

from msgspec.structs import replace

from rechannel.engine.failures.retries import Retries
from rechannel.engine.journal.state import JournalState
from rechannel.engine.loop.boundary import journal_early
from rechannel.engine.loop.core.state import LoopState, Operators, Rules, schedule_of
from rechannel.engine.loop.intents import decided_of, reads_mine
from rechannel.engine.loop.outside import Outside
from rechannel.engine.program.physical import PhysicalPlan
from rechannel.engine.program.start_entries import reconciled
from rechannel.kernels.protocol.program import TASK_BYTES
from rechannel.model.configuration import Configuration
from rechannel.settings import Settings


def first_state(
    journal: JournalState, plan: PhysicalPlan, configuration: Configuration, settings: Settings
) -> LoopState:
    """Return the state of a loop that has not recovered yet. configuration: what a new job would start with."""
    return LoopState(
        rules=Rules(
            merging=settings.merging,
            task_bytes=settings.task_bytes or TASK_BYTES,
            poll_ms=settings.poll_ms,
            catch_up=settings.catch_up,
        ),
        plan=plan,
        configuration=configuration,
        last=journal.last_intended or 0,
        schedule=schedule_of(plan),
        operators=Operators(manifests=journal.manifests, times=journal.times),
        bad_rows=journal.bad_rows,
        timesteps=Retries(patience=settings.patience),
        looks=Retries(patience=settings.patience),
    )


def recovered(state: LoopState, outside: Outside) -> LoopState:
    """Take up what an earlier driver left; return the state to go on from."""
    journal, first = outside.journal.state, state.configuration
    replay = []
    for intent in journal.open_intents:
        # The program text may have other stages without state than the journal knows of.
        configuration = reconciled(journal.configuration_at(intent.timestep), first)
        mine = partial(reads_mine, intent, journal.notes)
        again = outside.sources.again(decided_of(intent, configuration), mine)
        replay.append(again)
        outside.sources.pass_over(again)
    if journal.configurations:
        held = reconciled(journal.configuration_at(state.last + 1), first)
        state = replace(state, configuration=held)
    state = replace(state, replay=tuple(replay))
    outside.history.repair(journal.coordination.records)
    resumed = outside.changes.resume(outside.position(state))
    outside.publisher.recover(journal)
    journal_early(outside)
    return replace(state, configuration=resumed)
