"""What stages are told in a timestep."""

from __future__ import annotations

import pytest

import rechannel as rc
from rechannel import aggregates as agg
from rechannel.engine.program.physical import PhysicalPlan
from rechannel.engine.program.steps import (
    first_configuration,
    layout_of,
    partitions_of,
    resolve_combine,
    routing_of,
    stage_step,
)
from rechannel.kernels.tasks.report import Sent
from rechannel.kernels.tasks.unit_report import ReportList, by_operator
from rechannel.model.configuration import Combine, Configuration, OperatorConfiguration
from rechannel.model.hashspace import Intervals
from rechannel.model.routing import Routing
from rechannel.state.manifest import Edit, Manifest
from rechannel.state.merging import BASE_LEVEL, MergePolicy
from rechannel.state.run import Run
from rechannel.testing import Harness, script
from tests.support.reports import edited, reported


def fan_out() -> PhysicalPlan:
    """One source, two operators on it, one of them ordered, and a third behind the first."""
    stream = rc.read().memory(script("k long, v long"), name="in")
    sums = stream.key_by("k").aggregate(total=agg.sum("v"), name="sums", tasks=3)
    last = stream.key_by("v").aggregate(last=agg.last("k"), name="last", bins=7)
    behind = sums.key_by("total").aggregate(n=agg.count(), name="behind")
    return Harness([last.write.memory("a"), behind.write.memory("b")]).plan


def configured(plan: PhysicalPlan, **more: int) -> Configuration:
    return first_configuration(
        plan, **{"tasks": 2, "bins": 4, "interval_ms": 0, "in_flight": 1, **more}
    )


def run(seq: int, clip: Intervals | None = None, level: int = 0) -> Run:
    where = clip or Intervals.everything()
    return Run(
        segment=f"s{seq}", clip=where, seq=seq, level=level, rows=10, size=1, span=where.width
    )


def test_a_job_starts_with_what_the_dataflow_and_the_settings_say():
    plan = fan_out()
    configuration = configured(plan, interval_ms=50, in_flight=3)
    operators = configuration.operators
    assert (configuration.interval_ms, configuration.in_flight) == (50, 3)
    assert {name: operator.tasks for name, operator in operators.items()} == {
        "in": 2, "sums": 3, "last": 2, "behind": 2,
    }  # fmt: skip
    assert operators["in"].routing is None
    assert {n: o.routing.bins for n, o in operators.items() if o.routing} == {
        "sums": 4, "last": 7, "behind": 4,
    }  # fmt: skip


def test_a_source_says_with_how_many_tasks_it_is_read():
    stream = rc.read().memory(script("k long, v long"), name="in", tasks=5)
    plan = Harness(stream.key_by("k").aggregate(n=agg.count(), name="counts")).plan
    tasks = {name: operator.tasks for name, operator in configured(plan).operators.items()}
    assert tasks == {"in": 5, "counts": 2}


def test_there_are_never_fewer_bins_than_tasks():
    operators = configured(fan_out(), tasks=9, bins=4).operators
    assert {n: o.routing.bins for n, o in operators.items() if o.routing} == {
        "sums": 4, "last": 9, "behind": 9,
    }  # fmt: skip


def test_a_stage_without_state_has_no_routing():
    with pytest.raises(ValueError, match="'in' has no routing"):
        routing_of(configured(fan_out()), "in")


def test_consumers_share_an_exchange_one_behind_the_other():
    plan = fan_out()
    configuration, front = configured(plan), plan.stage("in")
    ranges = layout_of(front, configuration)
    assert sorted(ranges.values()) in ([(0, 2), (2, 5)], [(0, 3), (3, 5)])
    assert {stop - first for first, stop in ranges.values()} == {2, 3}
    assert partitions_of(front, configuration) == 5
    assert partitions_of(plan.stage("last"), configuration) == 0


def test_inputs_of_one_consumer_share_its_partitions():
    stream = rc.read().memory(script("k long"), name="in")
    both = stream.union(stream).key_by("k").aggregate(n=agg.count(), name="n")
    plan = Harness(both.write.memory("out")).plan
    assert layout_of(plan.stage("in"), configured(plan)) == {("n", 0): (0, 2), ("n", 1): (0, 2)}


def step(plan: PhysicalPlan, name: str, configuration: Configuration, manifest: Manifest):
    return stage_step(
        plan,
        plan.stage(name),
        configuration,
        timestep=5,
        stream_ms=70,
        manifest=manifest,
        policy=MergePolicy(fan=2, slice_rows=1),
    )


def test_a_front_is_told_where_rows_go_and_what_is_combined():
    plan = fan_out()
    made = step(plan, "in", configured(plan), Manifest())
    assert (made.timestep, made.stream_ms, made.tasks, made.routing) == (5, 70, (), None)
    assert made.addresses["sums", 0].combined
    assert not made.addresses["last", 0].combined
    assert made.addresses["sums", 0].routing == routing_of(configured(plan), "sums")
    assert made.reports_to == -1


@pytest.mark.parametrize(
    ("combine", "combining", "expected"),
    [
        (Combine.ON, False, True),
        (Combine.OFF, True, False),
        (Combine.AUTO, True, True),
        (Combine.AUTO, False, False),
    ],
)
def test_combining_follows_the_configuration(combine: Combine, combining: bool, expected: bool):
    plan = fan_out()
    configuration = configured(plan)
    sums = configuration.operators["sums"]
    changed = OperatorConfiguration(
        tasks=sums.tasks, routing=sums.routing, combine=combine, combining=combining
    )
    made = step(plan, "in", configuration.with_operator("sums", changed), Manifest())
    assert made.addresses["sums", 0].combined is expected


def test_every_task_is_told_its_own_state():
    plan = fan_out()
    manifest = Manifest((run(4), run(3, Intervals.of([(0, 10)]))))
    made = step(plan, "last", configured(plan), manifest)
    assert len(made.tasks) == 2
    owned = [task.own for task in made.tasks]
    assert owned[0].union(owned[1]) == Intervals.everything()
    assert [[r.seq for r in task.runs] for task in made.tasks] == [[4, 3], [4]]
    assert all(
        r.clip.subtract(task.own) == Intervals.nothing() for task in made.tasks for r in task.runs
    )


def test_merges_are_planned_for_every_task():
    plan = fan_out()
    manifest = Manifest(tuple(run(seq) for seq in range(4, 0, -1)))
    made = [
        stage_step(
            plan,
            plan.stage("last"),
            configured(plan),
            timestep=timestep,
            stream_ms=0,
            manifest=manifest,
            policy=MergePolicy(fan=2, slice_rows=1),
        )
        for timestep in (5, 6)
    ]
    assert all(task.merges for one in made for task in one.tasks)


def test_stages_in_the_middle_report_apart():
    plan = fan_out()
    assert step(plan, "sums", configured(plan), Manifest()).reports_to == 2
    assert step(plan, "behind", configured(plan), Manifest()).reports_to == 0


def test_an_edit_is_what_all_tasks_of_the_operator_changed():
    everything = Intervals.everything()
    edits = [Edit(add=(run(1),)), Edit(retire=(((1,), everything),), add=(run(2),))]
    reports = [
        reported("in"),
        reported("sums", state=edited(edits[0])),
        reported("last", state=edited(Edit(add=(run(9),)))),
        reported("sums", 1, state=edited(edits[1])),
    ]
    merged = {report.operator: report.edit for report in by_operator(reports)}["sums"]
    assert merged == Edit(retire=(((1,), everything),), add=(run(1), run(2)))


def sending(*sent: tuple[str, int, int]) -> list[ReportList]:
    return by_operator(
        reported(
            "in",
            task,
            sent=(Sent(operator=operator, input=0, offered=rows, rows=rows, keys=keys, bytes=1),),
        )
        for task, (operator, rows, keys) in enumerate(sent)
    )


def test_automatic_combining_follows_what_it_would_save():
    configuration = configured(fan_out())
    worth = resolve_combine(fan_out(), configuration, sending(("sums", 100, 10), ("sums", 100, 80)))
    assert worth is configuration
    not_worth = resolve_combine(fan_out(), configuration, sending(("sums", 100, 80)))
    assert not not_worth.operators["sums"].combining
    assert not_worth.version == configuration.version + 1
    back = resolve_combine(fan_out(), not_worth, sending(("sums", 100, 10)))
    assert back.operators["sums"].combining


def test_nothing_is_decided_from_nothing():
    configuration = configured(fan_out())
    assert resolve_combine(fan_out(), configuration, sending(("sums", 0, 0))) is configuration
    assert resolve_combine(fan_out(), configuration, by_operator([reported("in")])) is configuration


def test_what_the_user_decided_stays():
    configuration = configured(fan_out())
    fixed = OperatorConfiguration(
        tasks=1, routing=Routing.even(bins=1, tasks=1), combine=Combine.ON
    )
    configuration = configuration.with_operator("sums", fixed)
    assert resolve_combine(fan_out(), configuration, sending(("sums", 100, 100))) is configuration


def test_a_task_writes_its_share_of_what_is_written_anew_and_merges_nothing_else():
    plan = fan_out()
    configuration = configured(plan, tasks=2, bins=4)
    routing = routing_of(configuration, "sums")
    manifest = Manifest((run(3), run(2), run(1)))
    anew = Intervals.of([routing.span(0), routing.span(1)])
    made = stage_step(
        plan,
        plan.stage("sums"),
        configuration,
        timestep=5,
        stream_ms=70,
        manifest=manifest,
        policy=MergePolicy(fan=2, slice_rows=1),
        rewrite=anew,
    )
    first, second = made.tasks[0], made.tasks[-1]
    (merge,) = first.merges
    assert merge.where == first.own.intersect(anew)
    assert (merge.seqs, merge.level, merge.bottom) == ((3, 2, 1), BASE_LEVEL, True)
    assert all(each.where != merge.where for each in second.merges)
