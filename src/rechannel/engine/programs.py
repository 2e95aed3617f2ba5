"""Stage programs of a plan: what is shipped to tasks once per logic version."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from rechannel.engine.physical import PhysicalPlan, Stage
from rechannel.kernels.migrate import Migration, fingerprint
from rechannel.kernels.program import StageProgram
from rechannel.state.store import Store


@dataclass(frozen=True, kw_only=True)
class Passage:
    """From one era of an operator's state to the next. source: name of the era before, as segments carry it."""

    source: str
    migration: Migration


def program_of(
    stage: Stage,
    store: Store,
    version: int = 1,
    *,
    era: str | None = None,
    passages: Sequence[Passage] = (),
) -> StageProgram:
    """The program of a stage.

    era: name of its present state, as segments carry it; None = the fingerprint of its columns. passages: from every
    era that may still be stored, oldest first.
    """
    ways = {
        passage.source: tuple(each.migration for each in passages[number:])
        for number, passage in enumerate(passages)
    }
    return StageProgram(
        operator=stage.name,
        root=stage.root,
        store=store,
        logic=stage.logic,
        version=version,
        fingerprint=era or state_fingerprint(stage),
        migrations=ways,
        times=stage.times,
        origins=stage.origins,
    )


def programs_of(plan: PhysicalPlan, store: Store) -> dict[str, StageProgram]:
    """Programs of all stages, by name."""
    return {stage.name: program_of(stage, store) for stage in plan.stages}


def state_fingerprint(stage: Stage) -> str:
    """Sixteen hex digits that change when key or state columns change; empty for a front."""
    if stage.logic is None:
        return ""
    return fingerprint(stage.logic.key_schema, stage.logic.state_schema)
