"""Stage programs of a plan: what is shipped to tasks once per logic version."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from rechannel.engine.program.physical import PhysicalPlan, Stage
from rechannel.kernels.protocol.migrate import Chain, Migration, fingerprint
from rechannel.kernels.protocol.program import StageProgram
from rechannel.state.store import Store


@dataclass(frozen=True, kw_only=True)
class Passage:
    """From one era of an operator's state to another. source, target: their names, as segments carry them."""

    source: str
    target: str
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
    era that may still be stored, towards the present one.
    """
    present = era or state_fingerprint(stage)
    return StageProgram(
        operator=stage.name,
        root=stage.root,
        store=store,
        logic=stage.logic,
        version=version,
        fingerprint=present,
        migrations=ways_to(present, passages),
        times=stage.times,
        origins=stage.origins,
    )


def ways_to(present: str, passages: Sequence[Passage]) -> dict[str, Chain]:
    """By era, the migrations that lead from it to the present one, in order."""
    by_source = {passage.source: passage for passage in passages}
    ways = {}
    for source in by_source:
        era, way = source, list[Migration]()
        while era != present and era in by_source and len(way) < len(by_source):
            way.append(by_source[era].migration)
            era = by_source[era].target
        if era == present:
            ways[source] = tuple(way)
    return ways


def programs_of(plan: PhysicalPlan, store: Store) -> dict[str, StageProgram]:
    """Programs of all stages, by name."""
    return {stage.name: program_of(stage, store) for stage in plan.stages}


def state_fingerprint(stage: Stage) -> str:
    """Sixteen hex digits that change when key or state columns change; empty for a front."""
    if stage.logic is None:
        return ""
    return fingerprint(stage.logic.key_schema, stage.logic.state_schema)
