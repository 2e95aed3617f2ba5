"""Make the stage programs of a plan: what is shipped to tasks once per version of the logic."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from rechannel.engine.program.physical import PhysicalPlan, Stage
from rechannel.kernels.protocol.migrate import Chain, Migration, fingerprint
from rechannel.kernels.protocol.program import Branch, StageProgram
from rechannel.state.store import Store


@dataclass(frozen=True, kw_only=True)
class Passage:
    """Leads from one state schema version (`source`) to another (`target`), named as in segments."""

    source: str
    target: str
    migration: Migration


def program_of(
    stage: Stage,
    store: Store,
    version: int = 1,
    *,
    schema_version: str | None = None,
    passages: Sequence[Passage] = (),
    combined_by: str = "",
) -> StageProgram:
    """Return the program of a stage.

    schema_version: of its present state, as in segments; None means the fingerprint of its columns. passages: from
    every schema version that may still be stored, towards the present one. combined_by: see `StageProgram`.
    """
    present = schema_version or state_fingerprint(stage)
    return StageProgram(
        operator=stage.name,
        root=stage.root,
        store=store,
        logic=stage.logic,
        version=version,
        fingerprint=present,
        migrations=ways_to(present, passages),
        combined_by=combined_by,
        times=stage.times,
        origins=stage.origins,
    )


def with_broadcasts(
    plan: PhysicalPlan, programs: Mapping[str, StageProgram]
) -> dict[str, StageProgram]:
    """Return the programs with those that broadcast inputs are read with. A program that has them all is kept."""
    made = dict(programs)
    for stage in plan.stages:
        read = {name: programs[operator] for name, operator in stage.broadcasts.items()}
        if read and not made[stage.name].broadcasts:
            tables = {name: table_of(program) for name, program in read.items()}
            made[stage.name] = replace(made[stage.name], broadcasts=tables)
    return made


def table_of(program: StageProgram) -> StageProgram:
    """Return the part of a program that reads its state: without what happens to the operator's rows."""
    root = Branch(node=program.root.node, schema=program.root.schema)
    return replace(program, root=root, broadcasts={})


def ways_to(present: str, passages: Sequence[Passage]) -> dict[str, Chain]:
    """Return, by schema version, the migrations that lead from it to the present one, in order."""
    by_source = {passage.source: passage for passage in passages}
    ways = {}
    for source in by_source:
        schema_version, way = source, list[Migration]()
        while (
            schema_version != present and schema_version in by_source and len(way) < len(by_source)
        ):
            way.append(by_source[schema_version].migration)
            schema_version = by_source[schema_version].target
        if schema_version == present:
            ways[source] = tuple(way)
    return ways


def programs_of(plan: PhysicalPlan, store: Store) -> dict[str, StageProgram]:
    """Return the programs of all stages, by name."""
    return {stage.name: program_of(stage, store) for stage in plan.stages}


def state_fingerprint(stage: Stage) -> str:
    """Return sixteen hex digits that change when key or state columns change; empty for a source stage."""
    if stage.logic is None:
        return ""
    return fingerprint(stage.logic.key_schema, stage.logic.state_schema)
