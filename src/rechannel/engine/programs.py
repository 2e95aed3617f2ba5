"""Stage programs of a plan: what is shipped to tasks once per logic version."""

from __future__ import annotations

from collections.abc import Sequence

from rechannel.engine.physical import PhysicalPlan, Stage
from rechannel.kernels.migrate import Migration, chains, fingerprint
from rechannel.kernels.program import StageProgram
from rechannel.state.store import Store


def program_of(
    stage: Stage, store: Store, version: int = 1, migrations: Sequence[Migration] = ()
) -> StageProgram:
    """The program of a stage. migrations: all that its state went through, oldest first."""
    era, ways = chains(migrations) if migrations else (state_fingerprint(stage), {})
    return StageProgram(
        operator=stage.name,
        root=stage.root,
        store=store,
        logic=stage.logic,
        version=version,
        fingerprint=era,
        migrations=ways,
    )


def programs_of(plan: PhysicalPlan, store: Store) -> dict[str, StageProgram]:
    """Programs of all stages, by name."""
    return {stage.name: program_of(stage, store) for stage in plan.stages}


def state_fingerprint(stage: Stage) -> str:
    """Sixteen hex digits that change when key or state columns change; empty for a front."""
    if stage.logic is None:
        return ""
    return fingerprint(stage.logic.key_schema, stage.logic.state_schema)
