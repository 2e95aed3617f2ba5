"""Compute what each stage of a timestep receives, from a Configuration and manifests. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace

from rechannel.dataflow.graph.nodes import Source, Stateful
from rechannel.engine.program.physical import PhysicalPlan, Stage
from rechannel.errors import TimestepError
from rechannel.kernels.protocol.program import Address, SharedState, StageStep
from rechannel.kernels.protocol.task_states import TaskStates
from rechannel.kernels.tasks.clocks import handed_on
from rechannel.kernels.tasks.unit_report import UnitReport
from rechannel.model.configuration import Combine, Configuration, OperatorConfiguration
from rechannel.model.eventtime import Times, advance
from rechannel.model.hashspace import Intervals
from rechannel.model.routing import Routing
from rechannel.model.spread import SpreadBin
from rechannel.state.manifest import Edit, Manifest
from rechannel.state.merging import MergePolicy


def first_configuration(
    plan: PhysicalPlan, *, tasks: int, bins: int, interval_ms: int, in_flight: int
) -> Configuration:
    """The Configuration a new job starts with: the user's numbers where given, defaults elsewhere."""
    operators: dict[str, OperatorConfiguration] = {}
    for stage in plan.stages:
        # A stage that sends on what a materialised function left is no node of the dataflow.
        node = plan.dataflow.by_name.get(stage.name)
        operator = node if isinstance(node, Stateful) else None
        asked = node.tasks if isinstance(node, (Stateful, Source)) else None
        wanted = asked or tasks
        routing = None
        if stage.logic is not None:
            count = max((operator and operator.bins) or bins, wanted)
            routing = Routing.even(bins=count, tasks=wanted)
        operators[stage.name] = OperatorConfiguration(tasks=wanted, routing=routing)
    return Configuration(operators=operators, interval_ms=interval_ms, in_flight=in_flight)


def routing_of(configuration: Configuration, operator: str) -> Routing:
    """Routing of a stateful operator. Raises ValueError for a stateless one."""
    routing = configuration.operators[operator].routing
    if routing is None:
        msg = f"operator {operator!r} has no routing"
        raise ValueError(msg)
    return routing


def layout_of(stage: Stage, configuration: Configuration) -> dict[tuple[str, int], tuple[int, int]]:
    """Range of partitions that every consumer has in a stage's exchange: (consumer, input) -> (first, stop)."""
    out: dict[tuple[str, int], tuple[int, int]] = {}
    position: dict[str, int] = {}
    total = 0
    for operator, index in stage.consumers:
        if operator not in position:
            position[operator] = total
            total += configuration.operators[operator].tasks
        first = position[operator]
        out[operator, index] = (first, first + configuration.operators[operator].tasks)
    return out


def partitions_of(stage: Stage, configuration: Configuration) -> int:
    """Number of partitions of a stage's exchange that carry data."""
    return max((stop for _, stop in layout_of(stage, configuration).values()), default=0)


def stage_step(
    plan: PhysicalPlan,
    stage: Stage,
    configuration: Configuration,
    *,
    timestep: int,
    stream_ms: int,
    manifest: Manifest,
    policy: MergePolicy,
    rewrite: Intervals | None = None,
) -> StageStep:
    """Return what the tasks of a stage receive in one timestep, without event time (see `timed`).

    manifest: the operator's state of the timestep before. rewrite: hashes whose state is rewritten.
    """
    addresses = {
        (operator, index): Address(
            first=first,
            routing=routing_of(configuration, operator),
            combined=_combined(plan, configuration, operator),
        )
        for (operator, index), (first, _) in layout_of(stage, configuration).items()
    }
    apart = stage.reports_apart or not stage.consumers
    reports_to = partitions_of(stage, configuration) if apart else -1
    number = [s.name for s in plan.stages].index(stage.name)
    if stage.can is None:
        return StageStep(
            timestep=timestep,
            stream_ms=stream_ms,
            number=number,
            addresses=addresses,
            reports_to=reports_to,
        )
    routing = routing_of(configuration, stage.name)
    return StageStep(
        timestep=timestep,
        stream_ms=stream_ms,
        number=number,
        addresses=addresses,
        reports_to=reports_to,
        tasks=task_states(
            routing, manifest, timestep, policy, rewrite=rewrite, lasts_us=stage.can.lasts_us
        ),
        routing=routing,
    )


def timed(
    step: StageStep, stage: Stage, times: Times, seen: Mapping[str, int], memory: int
) -> StageStep:
    """Return a step that knows event times, and how many bytes a task may hold at once.

    times: the operator's, of the timestep before. seen: latest event times that other stages have seen in this one.
    """
    event_times = {name: seen[name] for name in stage.origins if name in seen}
    if stage.times or event_times:
        return replace(step, times=times, event_times=event_times, memory=memory)
    return replace(step, memory=memory)


def rowless(plan: PhysicalPlan, times: Mapping[str, Times], stream_ms: int) -> dict[str, int]:
    """Return watermarks after a timestep without rows: only idle inputs and processing time can move them."""
    passed: dict[str, int] = {}
    watermarks: dict[str, int] = {}
    for stage in plan.stages:
        if stage.can is None or not stage.times:
            continue
        before = times.get(stage.name, Times())
        watermark = advance(before, stage.times, watermarks, stream_ms).watermark
        passed[stage.name] = watermark
        watermarks.update(handed_on(stage.name, stage.can, watermark))
    return passed


def task_states(
    routing: Routing,
    manifest: Manifest,
    timestep: int,
    policy: MergePolicy,
    *,
    rewrite: Intervals | None = None,
    lasts_us: int | None = None,
) -> TaskStates:
    """State that each task reads and merges.

    rewrite: hashes to write anew, whichever task owns them. lasts_us: see `plan_merges`.
    """
    return TaskStates(
        manifests=manifest.by_task(routing),
        routing=routing,
        timestep=timestep,
        policy=policy,
        rewrite=rewrite,
        lasts_us=lasts_us,
        shared=_shared(routing, manifest),
    )


def _shared(routing: Routing, manifest: Manifest) -> Mapping[int, tuple[SharedState, ...]]:
    """Return, by task, the state of the spread bins that it shares: all of it, also where another task owns the bin."""
    out: dict[int, tuple[SharedState, ...]] = {}
    for spread in routing.spreads:
        own = Intervals(((spread.lo, spread.hi),))
        runs = manifest.within(own)
        for task in spread.tasks:
            share = spread.share_of(task)
            if share is not None:
                out[task] = (*out.get(task, ()), SharedState(own=own, share=share, runs=runs))
    return out


def _combined(plan: PhysicalPlan, configuration: Configuration, operator: str) -> bool:
    return can_combine(plan, operator) and configuration.operators[operator].combines


def can_combine(plan: PhysicalPlan, operator: str) -> bool:
    """Whether what an operator receives can be pre-aggregated."""
    can = plan.stage(operator).can
    return can is not None and can.combinable and not can.logic.ordered


def with_joint_times(edit: Edit, spreads: Iterable[SpreadBin]) -> Edit:
    """Give the runs of a spread bin that several tasks wrote in one timestep the same times.

    They have one seq, by which runs are retired and merged: whether they are still needed has to have one answer.
    """
    runs = list(edit.add)
    for spread in spreads:
        where = Intervals(((spread.lo, spread.hi),))
        alike: dict[int, list[int]] = {}
        for number, run in enumerate(runs):
            if run.clip.intersect(where):
                alike.setdefault(run.seq, []).append(number)
        for numbers in alike.values():
            dues = [due for number in numbers if (due := runs[number].due) is not None]
            if len(dues) < len(numbers):
                continue  # without times, rows are kept for ever
            due = (min(first for first, _ in dues), max(last for _, last in dues))
            waits = max(runs[number].last_awaited for number in numbers)
            awaited = None if waits == due[1] else waits
            for number in numbers:
                runs[number] = replace(runs[number], due=due, awaited=awaited)
    return replace(edit, add=tuple(runs))


def times_of(report: UnitReport) -> Times | None:
    """Return the event time of an operator; None where it does not go by event time.

    Raises TimestepError if its tasks disagree.
    """
    times = report.times
    if len(times) > 1:
        msg = f"tasks of operator {report.operator!r} disagree on event time: {list(times)}"
        raise TimestepError(msg)
    return times[0] if times else None


COMBINE_BELOW = 0.5
"""Combining pays when it leaves less than this share of the rows: it costs a reduction, and states are wider
than values."""


def resolve_combine(
    plan: PhysicalPlan, configuration: Configuration, reports: Iterable[UnitReport]
) -> Configuration:
    """Let AUTO operators follow the reduction that the last timestep measured (distinct keys / rows offered).

    Return the same Configuration if that changes none of them, otherwise a new version of it.
    """
    before = configuration
    offered: dict[str, int] = {}
    keys: dict[str, int] = {}
    for report in reports:
        for sent in report.sent:
            offered[sent.operator] = offered.get(sent.operator, 0) + sent.offered
            keys[sent.operator] = keys.get(sent.operator, 0) + sent.keys
    for operator, rows in offered.items():
        if not can_combine(plan, operator):
            continue
        current = configuration.operators[operator]
        combining = keys[operator] < COMBINE_BELOW * rows
        if rows and current.combine is Combine.AUTO and combining != current.combining:
            changed = replace(current, combining=combining)
            configuration = configuration.with_operator(operator, changed)
    if configuration is before:
        return before
    return replace(configuration, version=before.version + 1)
