"""Versions of the dataflow: what the next one means for the running stream. What a start means is in `starting`.

The journal keeps in a note, for each version, which logic each node runs (import path and digest, never code), what
state each operator keeps, and how state of earlier versions is read. So a driver that starts with the program text from
before a live change gets an error instead of silently undoing the change, and one that starts with new text continues
if the text can use the state.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from rechannel.dataflow.checks.changelogs import has_changelog
from rechannel.dataflow.checks.check import fingerprint
from rechannel.dataflow.evolution.declared import DECLARED, after_live_change
from rechannel.dataflow.evolution.difference import Difference, differences
from rechannel.dataflow.evolution.migration import Migrate
from rechannel.dataflow.evolution.migration_json import migration_from_json
from rechannel.dataflow.graph.nodes import Dataflow, Late, Stateful
from rechannel.dataflow.identity.factories import Factory
from rechannel.dataflow.identity.logic import dataflow_identity
from rechannel.dataflow.identity.provided import Provided
from rechannel.engine.journal.state import JournalState
from rechannel.engine.program.assigned import assigned_after
from rechannel.engine.program.carrying import Stored, carried, next_schema_versions
from rechannel.engine.program.deploying import check_live, deployed
from rechannel.engine.program.describing import STATE, state_of
from rechannel.engine.program.dividing import no_longer_divisible
from rechannel.engine.program.leading_back import Return, Text
from rechannel.engine.program.physical import PhysicalPlan, Stage, compile_plan
from rechannel.engine.program.programs import Passage, program_of, with_broadcasts
from rechannel.engine.program.restarting import (
    lasting,
    sources_of,
)
from rechannel.engine.program.schema_versions import directed
from rechannel.engine.program.steps import first_configuration
from rechannel.engine.program.upgrading import AT_START, Upgrade
from rechannel.errors import RefusedError
from rechannel.kernels.protocol.logic import StatefulLogic
from rechannel.kernels.protocol.program import StageProgram
from rechannel.kernels.protocol.resolved import looking_for_ends, telling_late
from rechannel.model.codec import Json, encode
from rechannel.reconfigure.changes.program import ChangeProgram
from rechannel.reconfigure.deploy import Deploy
from rechannel.state.store import Store

NOTE = "program"
"""Kind of the note in the journal: {version as text: what the journal keeps of it}."""

KEPT = 32
"""Number of versions whose identity is kept, to recognise old program text."""

_PAST = ("text", "identity", "incarnations", "eras", DECLARED, AT_START)
"""What is kept of a version that no longer runs."""


@dataclass(frozen=True, kw_only=True)
class Program:
    """One version of the dataflow, ready to run.

    record: what the journal keeps of it: `text` (what was asked for), `identity` (of every node), `incarnations` (of
    its operators), `operators` (what their state depends on), `lasting` (what it means beyond its columns), `sources`
    (what they read), `state` (what it is, see `describing`), `declared` (see there), `at_start` (see `upgrading`),
    `logics` (version of every operator's logic), `eras` (name of the present state of operators that were migrated),
    `assigned` (see `engine.program.assigned`; absent without), `migrations` (by operator: passages, see
    `schema_versions`), `back_to` (the version that it led back to; absent where it did not). provided: the functions
    that it may name.
    back: where it leads back from another version, and that is to be journalled. upgrade: where it takes over from
    another text, and that is to be journalled.
    """

    version: int
    dataflow: Dataflow
    schemas: Mapping[str, pa.Schema]
    plan: PhysicalPlan
    programs: Mapping[str, StageProgram]
    record: Mapping[str, Json]
    provided: Provided
    back: Return | None = None
    upgrade: Upgrade | None = None

    @property
    def begins(self) -> bool:
        """Whether a version begins with this start."""
        return self.back is not None or self.upgrade is not None


def current_record(state: JournalState) -> Mapping[str, Json]:
    """Return what the journal keeps of the running version; empty before the first."""
    known: Mapping[str, Json] = state.notes.get(NOTE) or {}
    found: Mapping[str, Json] = known.get(str(current_version(state)), {})
    return found


def current_version(state: JournalState) -> int:
    """Return the number of the running version; 1 before the first timestep."""
    if not state.configurations:
        return 1
    return state.configuration_at((state.last_intended or 0) + 1).dataflow


def operators_now(state: JournalState) -> Mapping[str, str] | None:
    """Return what the operators with state keep, in the running version; None before the first."""
    return current_record(state).get("operators")


def noted(known: Mapping[str, Json], version: int, record: Mapping[str, Json]) -> dict[str, Json]:
    """Return the note with a version that is about to become the current one.

    The version before it stays complete, since it runs until the timestep boundary. Of a limited number of older ones,
    only what recognises old program text stays.
    """
    others = sorted(map(int, known.keys() - {str(version)}))[-(KEPT - 1) :]
    before = max((old for old in others if old < version), default=None)
    kept = {}
    for old in others:
        one = known[str(old)]
        kept[str(old)] = (
            one if old == before else {name: one[name] for name in _PAST if name in one}
        )
    return {**kept, str(version): dict(record)}


def compile_program(
    dataflow: Dataflow,
    schemas: Mapping[str, pa.Schema],
    store: Store,
    version: int,
    record: Mapping[str, Json],
    provided: Provided,
    *,
    before: Program | None = None,
    changed: frozenset[str] = frozenset(),
) -> Program:
    """Compile a dataflow into stages and make their programs; stages without a changed node keep theirs."""
    plan = compile_plan(dataflow, schemas, bound(dataflow, schemas))
    programs = {}
    for stage in plan.stages:
        if before is not None and _same_stage(stage.name, before, plan, changed):
            programs[stage.name] = before.programs[stage.name]
            continue
        logic, schema_version = record["logics"].get(stage.name, 1), record["eras"].get(stage.name)
        way = directed(record["migrations"].get(stage.name, ()), schema_version or "")
        passages = [
            Passage(
                source=one["from"],
                target=one["to"],
                migration=migration_from_json(one["migration"], provided),
            )
            for one in way
        ]
        node = dataflow.by_name.get(stage.name)
        combined = isinstance(node, Stateful) and node.spec.irreplaceable is not None
        programs[stage.name] = program_of(
            stage,
            store,
            logic,
            schema_version=schema_version,
            passages=passages,
            combined_by=record["identity"][stage.name]["digest"] if combined else "",
        )
    return Program(
        version=version,
        dataflow=dataflow,
        schemas=schemas,
        plan=plan,
        programs=with_broadcasts(plan, programs),
        record=record,
        provided=provided,
    )


def bound(dataflow: Dataflow, schemas: Mapping[str, pa.Schema]) -> dict[str, StatefulLogic]:
    """Return the executable logic of each stateful operator."""
    late = {node.upstream.name for node in dataflow.nodes if isinstance(node, Late)}
    logics = {}
    for node in dataflow.nodes:
        if isinstance(node, Stateful):
            logic = node.spec.bind(node.keys, schemas[node.upstream.name])
            logic = telling_late(logic) if node.name in late else logic
            read = has_changelog(dataflow, node)
            logics[node.name] = looking_for_ends(logic) if read else logic
    return logics


def text_of(dataflow: Dataflow, schemas: Mapping[str, pa.Schema]) -> Text:
    """Return what a dataflow means for state. schemas: columns of all nodes."""
    logics = bound(dataflow, schemas)
    return Text(
        identity=dataflow_identity(dataflow),
        operators=fingerprint(dataflow, schemas),
        lasting=lasting(dataflow, logics),
        state=state_of(dataflow, logics),
        sources=sources_of(dataflow),
        logics=logics,
    )


def _same_stage(name: str, before: Program, plan: PhysicalPlan, changed: frozenset[str]) -> bool:
    """Return whether the program of a stage can stay. changed: nodes with other logic or converted state."""
    old = next((stage for stage in before.plan.stages if stage.name == name), None)
    if old is None:
        return False
    new = plan.stage(name)
    nodes = {branch.node for branch in new.root.walk()}
    nodes |= {consumer.operator for branch in new.root.walk() for consumer in branch.consumers}
    if not all(_same_stage(one, before, plan, changed) for one in new.broadcasts.values()):
        return False
    return not nodes & changed and _signature(old) == _signature(new)


def _signature(stage: Stage) -> list[Any]:
    """Return what a stage's program consists of besides functions: nodes, where their rows go, all columns."""
    logic = [] if stage.logic is None else _columns(stage.logic)
    return [
        logic,
        [stage.times, stage.origins, dict(stage.broadcasts)],
        *(
            (
                branch.node,
                str(branch.schema),
                branch.sink_buffer,
                branch.side,
                [(c.operator, c.input, _columns(c.logic)) for c in branch.consumers],
            )
            for branch in stage.root.walk()
        ),
    ]


def _columns(logic: StatefulLogic) -> list[str]:
    return [str(s) for s in (logic.key_schema, logic.value_schema, logic.state_schema)]


def deployed_to(
    before: Program,
    dataflow: Dataflow,
    schemas: Mapping[str, pa.Schema],
    deploy: Deploy,
    stored: Stored,
    state: JournalState,
) -> Upgrade:
    """Return what the deploy of a text does to the running program. See `deploying.deployed`, also for errors."""
    known = {**(state.notes.get(NOTE) or {}), str(before.version): before.record}
    text = text_of(dataflow, schemas)
    return deployed(text, known, before.version, deploy.declared, stored, state)


@dataclass(frozen=True, kw_only=True)
class Succession:
    """The next version of a program and what it means for the Configuration."""

    program: Program
    change: ChangeProgram
    difference: Difference


def succeed(  # noqa: PLR0913 - what a version is made of
    before: Program,
    dataflow: Dataflow,
    schemas: Mapping[str, pa.Schema],
    store: Store,
    *,
    text: str,
    version: int,
    defaults: Mapping[str, int],
    migrate: Mapping[str, Migrate] | None = None,
    assigned: Mapping[str, Factory] | None = None,
    stream_ms: int | None = None,
    stored: Stored = lambda operator: None,
    deploy: Deploy | None = None,
) -> Succession:
    """Make the next version of a running program, without any effect on it.

    text: what is asked for, in words. version: its number.
    defaults: `tasks` and `bins` of operators that are new. migrate: by operator,
    what becomes of its state. assigned: by node, what makes its logic of parameters. stream_ms: time of the change.
    stored: which schema versions of state are stored. deploy: if another text is deployed: what it declares and
    provides.
    Raises RefusedError, DataflowError.
    """
    found = _checked_differences(before, dataflow, schemas, text, deploy, migrate or {})
    old, meant = bound(before.dataflow, before.schemas), text_of(dataflow, schemas)
    new = meant.logics
    record = {
        "text": text,
        "identity": meant.identity,
        "operators": meant.operators,
        "lasting": meant.lasting,
        "sources": meant.sources,
        **({STATE: meant.state} if meant.state else {}),
    }
    record |= assigned_after(before.record, found, assigned or {})
    plan = compile_plan(dataflow, schemas, new)
    stages = {stage.name for stage in plan.stages}
    made = carried(old, new, found, migrate or {}, stream_ms)
    other = frozenset({*found.logic_changed, *found.rewired, *found.restated, *made})
    changed = _changed_stages(before, plan, other)
    logics = {n: before.record["logics"].get(n, 1) + (n in changed) for n in sorted(stages)}
    record["logics"] = logics
    record.update(next_schema_versions(before.record, old, new, logics, made, stored))
    if deploy is not None:
        record.update(deploy.declared.member(before.record, new.keys(), made.keys()))
    else:
        digests = {name: one["digest"] for name, one in meant.identity.items()}
        done = after_live_change(before.record, new.keys(), made.keys(), migrate or {}, digests)
        record.update(done)
    functions = [one.forth.function for one in made.values() if one.forth.function is not None]
    provided = (before.provided if deploy is None else deploy.provided).also(functions)
    program = compile_program(
        dataflow, schemas, store, version, record, provided, before=before, changed=other
    )
    change = _change_to(program, before, changed, defaults)
    return Succession(program=program, change=change, difference=found)


def _checked_differences(
    before: Program,
    dataflow: Dataflow,
    schemas: Mapping[str, pa.Schema],
    text: str,
    deploy: Deploy | None,
    migrate: Mapping[str, Migrate],
) -> Difference:
    """Return how a dataflow differs from the running one. Raises RefusedError if it must not, or does not."""
    found = differences(before.dataflow, dataflow, old_schemas=before.schemas, new_schemas=schemas)
    if deploy is not None:
        check_live(found)
    found.check()
    if not found and not (deploy is not None and migrate):
        msg = f"{text}: this changes nothing in the dataflow"
        raise RefusedError(msg)
    return found


def _changed_stages(before: Program, plan: PhysicalPlan, changed: frozenset[str]) -> frozenset[str]:
    """Return the stages that both versions have and whose program differs. changed: as of `_same_stage`."""
    kept = {stage.name for stage in before.plan.stages} & {stage.name for stage in plan.stages}
    return frozenset(name for name in kept if not _same_stage(name, before, plan, changed))


def _change_to(
    program: Program, before: Program, changed: Collection[str], defaults: Mapping[str, int]
) -> ChangeProgram:
    """Return what the next version means for the Configuration. changed: stages whose program differs."""
    stages = {stage.name for stage in program.plan.stages}
    former = {stage.name for stage in before.plan.stages}
    fresh = first_configuration(program.plan, interval_ms=0, in_flight=1, **defaults)
    return ChangeProgram(
        version=program.version,
        text=program.record["text"],
        operators={name: encode(fresh.operators[name]) for name in sorted(stages - former)},
        removed=tuple(sorted(former - stages)),
        logic={name: program.record["logics"][name] for name in sorted(changed)},
        undivided=no_longer_divisible(before.plan, program.plan),
    )
