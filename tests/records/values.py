"""One or several values of every record that is written to disk, for `recorded.json`.

The file holds the text of each, as the code wrote it before there was a codec: what it holds may never
change. A new record, or a new form of one, adds values at the end of its list.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from rechannel import changes
from rechannel.engine.journal.entries import (
    Beginning,
    Closed,
    Committed,
    ConfigurationChanged,
    Entry,
    Intent,
    Note,
    Notes,
    Opened,
    Published,
    Reconfiguring,
    SavepointDropped,
    SavepointMade,
    SourceRange,
    SourceReset,
    StateEdited,
    Withdrawn,
)
from rechannel.engine.journal.kept import Savepoint, Version
from rechannel.engine.journal.lease import Holder
from rechannel.engine.journal.state import JournalState
from rechannel.model.configuration import (
    Combine,
    Configuration,
    OperatorConfiguration,
    Resources,
)
from rechannel.model.eventtime import ENDED, NEVER, Beat, Mark, Times
from rechannel.model.hashspace import SPACE, Intervals
from rechannel.model.routing import Routing
from rechannel.reconfigure import strategies
from rechannel.reconfigure.changes.program import ChangeProgram
from rechannel.reconfigure.changes.together import Together
from rechannel.reconfigure.coordination import Coordination
from rechannel.reconfigure.events import (
    Finished,
    Planned,
    Prepared,
    Requested,
    Resumed,
    Reversed,
    Stepped,
)
from rechannel.reconfigure.moment import EventMoment
from rechannel.reconfigure.plan import Affected, Plan
from rechannel.reconfigure.record import Phase, Record, TakenStep
from rechannel.reconfigure.steps import Assign, BinMove, Step
from rechannel.reconfigure.topology.meta import MetaTopology
from rechannel.reconfigure.topology.values import OperatorTopology, StateEdge, Tasks
from rechannel.state.manifest import Edit, Manifest
from rechannel.state.run import Run
from rechannel.telemetry import events as telemetry
from rechannel.telemetry.task_finished import (
    Kept,
    SegmentWritten,
    Sent,
    SparkMetrics,
    SparkTaskId,
    TaskFinished,
)
from tests.records.writing import as_json

PIECES = Intervals(((5, 2**63), (2**63 + 1, SPACE)))


def run(**more: Any) -> Run:
    given = {"clip": Intervals.everything(), "seq": 14, "level": 1, "rows": 10, "size": 4151}
    return Run(**{"segment": "segments/counts/7-0.arrow", "span": SPACE, **given, **more})


RUNS = [
    run(),
    run(clip=PIECES, seq=-3, level=-1, span=2**63),
    run(clip=Intervals.nothing(), rows=0, size=0, span=0),
    run(due=(NEVER, ENDED)),
    run(due=(5, 9), awaited=7),
    run(digest="00ff"),
    run(due=(5, 9), digest="00ff"),
    run(due=(5, 9), awaited=0, digest="00ff", segment="segments/zählen/7-0.arrow"),
]
EDITS = [
    Edit(),
    Edit(add=(RUNS[0], RUNS[4])),
    Edit(retire=(((3, 4), PIECES), ((), Intervals.nothing())), add=(RUNS[1],)),
]
TIMES = [
    Times(),
    Times(watermark=-5, marks={"clicks": Mark(latest=7, active_ms=9), "views": Mark()}),
    Times(watermark=ENDED, beat=Beat(stream_ms=1000, shown=4)),
]
ROUTINGS = [
    Routing.even(bins=8, tasks=3),
    Routing(starts=(0, 10, 2**63 + 1), owners=(1, 0, 1), tasks=4),
]
RESOURCES = [Resources(), Resources(cpus=2, memory_mb=512, amounts={"gpu": 0.5, "fpga": 1.0})]
OPERATORS = [
    OperatorConfiguration(tasks=5),
    OperatorConfiguration(
        tasks=4,
        routing=ROUTINGS[1],
        combine=Combine.OFF,
        combining=False,
        logic=3,
        resources=RESOURCES[1],
        placement={2: "exec-1", 0: "7"},
    ),
]
CONFIGURATIONS = [
    Configuration(),
    Configuration(
        version=3,
        operators={"parse": OPERATORS[0], "counts": OPERATORS[1]},
        interval_ms=100,
        in_flight=2,
        dataflow=4,
        bounds={"clicks": 500},
        byte_bounds={"clicks": 1 << 20},
        executors=3,
    ),
]
CHANGES = [
    changes.rescale("counts", tasks=8),
    changes.rebalance("counts"),
    changes.rebalance("counts", tolerance=1e-07),
    changes.move("counts", [3, 1], 2),
    changes.split("counts", 0, into=4),
    changes.merge("counts", [0, 1]),
    changes.rewrite("counts"),
    changes.place("counts", 1, "exec-1"),
    changes.place("counts", 1, None),
    changes.combine("counts", "off"),
    changes.set_interval(0),
    changes.set_in_flight(2),
    changes.set_bound("clicks", None),
    changes.set_bound("clicks", 10, bytes=1 << 20),
    changes.executors(4),
    changes.assign_workload("counts", ROUTINGS[1]),
    changes.assign_resources(),
    changes.assign_resources("counts", cpus=2, memory_mb=100, amounts={"gpu": 0.25}),
    changes.assign_logic(operator="counts", function="my.module:better"),
    ChangeProgram(version=2, text="change_logic('zählen')"),
    ChangeProgram(
        version=3,
        base=2,
        text="change_dataflow(...)",
        operators={"more": {"tasks": 2, "routing": None}},
        removed=("old",),
        logic={"counts": 2},
        loaded={"more": 12},
    ),
    Together(changes=(changes.rescale("counts", 2), changes.set_interval(10))),
]
STRATEGIES = [
    strategies.all_at_once(),
    strategies.batched(),
    strategies.batched(4, gap=2, budget_ms=12.5, budget_bytes=1 << 30, prepare=False),
    strategies.fluid(),
    strategies.fluid(2, gap=1),
    strategies.optimized(3, budget_ms=1e-7),
]
MOVES = (
    BinMove(operator="counts", lo=0, hi=2**63, source=0, target=1, size=10.5),
    BinMove(operator="counts", lo=2**63, hi=SPACE, source=1, target=1),
)
STEPS = [
    Step(),
    Step(
        first=(
            Assign(operator=None, name="interval_ms", value=100),
            Assign(operator="counts", name="placement", value=[[0, "exec-1"]]),
        ),
        moves=MOVES,
        last=(Assign(operator="counts", name="starts", value=["0", "18446744073709551615"]),),
    ),
]


def events() -> list[Any]:
    step = as_json(STEPS[1])
    return [
        Requested(
            id="r1",
            time_ms=1,
            change=as_json(CHANGES[0]),
            strategy=as_json(STRATEGIES[0]),
            cause="me",
        ),
        Requested(
            id="r2",
            time_ms=2,
            change=as_json(CHANGES[3]),
            strategy=as_json(STRATEGIES[3]),
            cause="HTTP",
            at_timestep=7,
            at_ms=8,
            at_event={"us": 5, "operators": ["counts"]},
            steps=(step,),
            supersedes=("r1",),
        ),
        Prepared(id="r1", time_ms=3),
        Prepared(id="r1", time_ms=3, facts={"bytes_fetched": 5, "ms": 1.25}),
        Planned(id="r1", time_ms=4, steps=(), base={}),
        Planned(
            id="r1",
            time_ms=4,
            steps=(step, as_json(STEPS[0])),
            base={"operators": {"counts": as_json(OPERATORS[1])}},
            advice="one key is hot",
        ),
        Stepped(id="r1", time_ms=5, timestep=9),
        Stepped(id="r1", time_ms=5, timestep=9, moves=3),
        Reversed(id="r1", time_ms=6, steps=(step,), reason="changed my mind"),
        Resumed(id="r1", time_ms=7, timestep=10),
        Resumed(id="r1", time_ms=7, timestep=10, unplaced=True),
        Finished(id="r1", time_ms=8, outcome="done"),
        Finished(id="r1", time_ms=8, outcome="failed", reason="no room", facts={"ms": 2}),
    ]


MOMENTS = [EventMoment(us=5), EventMoment(us=-5, operators=("counts", "sums"))]
RECORDS = [
    Record(id="r1", change=CHANGES[0], strategy=STRATEGIES[0], cause="me"),
    Record(
        id="r2",
        change=CHANGES[20],
        strategy=STRATEGIES[5],
        cause="HTTP",
        at_timestep=7,
        at_ms=8,
        at_event=MOMENTS[1],
        fixed=(STEPS[1],),
        phase=Phase.MOVING,
        steps=(STEPS[1], STEPS[0]),
        next=1,
        base={"operators": {}, "interval_ms": 5},
        taken=(TakenStep(timestep=7, time_ms=80, bins=1, size=10.5),),
        times={"waiting": 1, "moving": 5},
        prepared={"bytes_fetched": 5},
        reason="in words",
        drivers=2,
    ),
]
COORDINATIONS = [Coordination(), Coordination(serial=2, records=tuple(RECORDS))]
PLANS = [
    Plan(
        change=CHANGES[0],
        strategy=STRATEGIES[0],
        steps=(),
        affected=(),
        timesteps=0,
        cost_ms=0.0,
    ),
    Plan(
        change=CHANGES[-1],
        strategy=STRATEGIES[2],
        steps=(STEPS[1],),
        affected=(
            Affected(operator="counts", tasks=(0, 1), bins=2, size=10.6),
            Affected(operator="sums", tasks=(), bins=0, size=0.0, placed=(1,), carried=4096.4),
        ),
        timesteps=3,
        cost_ms=1.23456,
        advice=("one key is hot",),
    ),
    Plan(
        change=CHANGES[0],
        strategy=STRATEGIES[0],
        steps=(),
        affected=(
            Affected(operator="sums", tasks=(), bins=0, size=0.0, placed=(1, 2), carried=0.0),
        ),
        timesteps=1,
        cost_ms=0.0,
    ),
    Plan(
        change=CHANGES[0],
        strategy=STRATEGIES[0],
        steps=(),
        affected=(),
        timesteps=1,
        cost_ms=0.0,
        topology=MetaTopology(
            operators=(
                OperatorTopology(operator="in", unaffected=Tasks.of([0, 1])),
                OperatorTopology(
                    operator="counts",
                    upstream=("in",),
                    upstream_before=("in", "other"),
                    kept=Tasks.of([0]),
                    replaced=Tasks.of([1, 2, 5]),
                    new=Tasks.of([6]),
                    state=(StateEdge(source=1, target=6, bins=2, size=10.6),),
                ),
                OperatorTopology(operator="sums", gone=Tasks.of([0, 1])),
            )
        ),
    ),
]


def bodies() -> list[Any]:
    steps = (Stepped(id="r1", time_ms=5, timestep=9, moves=3),)
    span = SourceRange(start={"0": 5}, end={"0": 9}, layout=[["a.parquet"], ["b.parquet"]])
    named = SourceRange(start=None, end=12, incarnation="clicks-2")
    return [
        Opened(host="h", pid=7, time_ms=1, fingerprint="f", version="0.1.0"),
        Opened(
            host="h", pid=7, time_ms=1, fingerprint="f", version="0.1.0", keep_versions=4, id="5f"
        ),
        Intent(timestep=7, sources={}, configuration_version=3, stream_ms=99),
        Intent(
            timestep=8,
            sources={"flights": span, "clicks": named},
            configuration_version=3,
            stream_ms=99,
            configuration=CONFIGURATIONS[1],
            steps=steps,
        ),
        Committed(timestep=8),
        Committed(
            timestep=7,
            edits={"counts": EDITS[2], "sums": EDITS[1]},
            times={"sums": TIMES[1]},
            offsets={"flights": {"0": 9}, "clicks": None},
            staged={"out": {"outbox": {"counts": ["outbox/counts/7-0.arrow"]}}, "plain": None},
            outbox={"counts": ("outbox/counts/7-0.arrow",)},
        ),
        Published(timestep=7, sink="out"),
        Published(timestep=5, sink="out", incarnation="sink-2", dropped="it is gone"),
        Withdrawn(from_timestep=8, reason="too large"),
        ConfigurationChanged(from_timestep=9, configuration=CONFIGURATIONS[0], cause="request 5"),
        ConfigurationChanged(
            from_timestep=9,
            configuration=CONFIGURATIONS[1],
            cause="request 5",
            steps=steps,
            edits={"counts": EDITS[1]},
            notes={"program": {"1": {}}, "gone": None},
        ),
        *(Reconfiguring(event=event) for event in events() if event.kind != "stepped"),
        Note(kind="reconfiguration", body={"phase": "prepare", "moved": [1, 2.5, None]}),
        Note(kind="gone", body=None),
        Notes(bodies={"program": {"1": {}}, "gone": None}),
        Closed(time_ms=100),
        SavepointMade(name="before-release", timestep=7, time_ms=99, cause="release 12"),
        SavepointDropped(name="before-release", time_ms=99, cause="release 12 is out"),
        Opened(
            host="h",
            pid=7,
            time_ms=99,
            fingerprint="",
            version="0.2.0",
            id="5f",
            begins=Beginning(
                origin="/state/clicks",
                savepoint="before-release",
                timestep=7,
                stream_ms=6,
                edits={"counts": EDITS[1]},
                times={"sums": TIMES[1]},
                offsets={"clicks": {"0": 9}},
                configuration=CONFIGURATIONS[1],
                notes={"fork": {"origin": "/state/clicks"}},
            ),
        ),
        SourceReset(
            source="clicks", before={"0": 9}, after={"0": 4}, time_ms=99, cause="corrected"
        ),
        StateEdited(
            operator="users",
            timestep=7,
            edit=Edit(retire=(((3, 7), Intervals.everything()),)),
            time_ms=99,
            function="fixes:doubled",
            by="ann@host",
            rows=(3, 0, 1),
            cause="ticket 7",
        ),
    ]


def entries() -> list[Entry]:
    return [Entry(number=12, epoch=2, body=body) for body in bodies()]


def states() -> list[JournalState]:
    opened, _, idle, intent = bodies()[:4]
    committed = bodies()[5]
    shared = run(segment="segments/counts/6-0.arrow", seq=2)
    versions = {
        6: Version(manifests={"counts": Manifest((shared,))}, stream_ms=5),
        7: Version(
            manifests={"counts": Manifest((RUNS[4], shared)), "sums": Manifest((shared,))},
            outbox={"counts": ("outbox/counts/7-0.arrow",)},
            stream_ms=6,
            times={"sums": TIMES[1]},
        ),
    }
    return [
        JournalState(),
        JournalState(
            number=40,
            epoch=2,
            driver=opened,
            last_committed=7,
            versions=versions,
            offsets=committed.offsets,
            open_intents=(intent,),
            attempts=1,
            configurations=((5, CONFIGURATIONS[0]), (8, CONFIGURATIONS[1])),
            unpublished={7: committed.staged},
            notes={"program": {"1": {}}},
            keep_versions=2,
            coordination=COORDINATIONS[1],
            digests={7: "aa", 8: idle.digest("5f")},
            openings=("", "5f"),
        ),
        JournalState(
            number=41,
            epoch=1,
            driver=opened,
            last_committed=7,
            versions={7: versions[7]},
            configurations=((5, CONFIGURATIONS[0]),),
            savepoints={
                "before-release": Savepoint(
                    timestep=6,
                    time_ms=99,
                    cause="release 12",
                    version=versions[6],
                    offsets={"clicks": {"0": 4}},
                    configuration=CONFIGURATIONS[0],
                    notes={"program": {"1": {}}},
                )
            },
        ),
    ]


HOLDERS = [
    Holder(host="h", pid=7, started_ms=5, epoch=2, heartbeat_ms=9),
    Holder(
        host="zählt",
        pid=7,
        started_ms=5,
        epoch=2,
        heartbeat_ms=9,
        entry=41,
        table="boot pid:[4026531836]",
    ),
]
TASK = TaskFinished(
    timestep=4, operator="delays", task=1, attempt="17", host="worker-1", pid=99, executor="2",
    started_ms=1000.5, finished_ms=1030.5, cpu_ms=21.25, ms={"wait": 10.0, "process": 12.5},
    rows_in=100, rows_out=7, bytes_in=4096, bytes_out=512, keys=7, keys_found=3, runs=2,
    rows_merged=40, bytes_fetched=5, counts={"timers": 1}, bins="eJw=",
    segments=(SegmentWritten(key="segments/delays/a.arrow", level=0, rows=7, bytes=900),),
    sent=(Sent(operator="top", input=0, offered=7, rows=5, keys=5, bytes=500),),
    kept=(Kept(node="delays", rows=7, bytes=12),),
    spark_task=SparkTaskId(stage=8, task=345),
    spark=SparkMetrics(
        stage=8, stage_attempt=1, partition=1, attempt=2, speculative=True, executor="2",
        host="10.0.0.7", launch_ms=990, finish_ms=1040, run_ms=45, cpu_ms=1e-07, gc_ms=1,
        deserialise_ms=2, result_serialise_ms=1, shuffle_wait_ms=4, shuffle_write_ms=0.75,
        shuffle_read_bytes=4100, shuffle_write_bytes=520,
    ),
)  # fmt: skip
EVENTS = [
    telemetry.JobStarted(job="zählen", at_ms=1, engine="in-process"),
    telemetry.JobStarted(
        job="flights", at_ms=1, engine="spark", timestep=3, tasks={"delays": 2},
        versions={"spark": "4.2.0"}, backlog=16,
    ),
    telemetry.JobStopped(job="flights", at_ms=9),
    telemetry.JobStopped(job="flights", at_ms=9, error="StorageError"),
    telemetry.TimestepStarted(timestep=0, now_ms=900, at_ms=950),
    telemetry.TimestepStarted(
        timestep=4, now_ms=900, at_ms=950, rows_expected=200, configuration=1,
        offsets={"files": {"start": {"0": [1, 2.5, None]}, "end": {}, "left_out": 3}},
    ),
    TaskFinished(
        timestep=0, operator="in", task=0, attempt="a", host="h", started_ms=1.0, finished_ms=2.0,
        cpu_ms=float("0.0"), ms={}, spark=SparkMetrics(
            stage=0, partition=0, executor="1", host="h", launch_ms=1, finish_ms=2, run_ms=0,
            cpu_ms=float("0.0"),
        ),
    ),
    TASK,
    telemetry.OperatorFinished(timestep=4, operator="delays", at_ms=1041),
    telemetry.TimestepCommitted(timestep=4, at_ms=1050, duration_ms=-1.5),
    telemetry.TimestepCommitted(
        timestep=4, at_ms=1050, duration_ms=100.5, phases={"plan": 10.0, "run": 85.0},
        rows_in=200, rows_out=14, state={"delays": telemetry.StateSize(rows=50, bytes=4000)},
    ),
    telemetry.TimestepFailed(timestep=5, at_ms=1060, error="UserFunctionError"),
    telemetry.TimestepFailed(
        timestep=5, at_ms=1060, error="UserFunctionError", message="boom", operator="delays",
        again_ms=12.5,
    ),
    telemetry.SinkPublished(timestep=4, sink="out", at_ms=1055),
    telemetry.SinkPublished(
        timestep=4, sink="out", at_ms=1055, duration_ms=4.5, rows=14, bytes=80, again=True
    ),
    telemetry.Note(at_ms=2, topic="telemetry", text="3 lost"),
    telemetry.Note(
        at_ms=2, topic="telemetry", text="3 lost", timestep=4, cause="r1",
        data={"lost": 3, "of": None, "more": {"deep": [True, "é"]}},
    ),
]  # fmt: skip


def values() -> Mapping[str, Sequence[Any]]:
    """By the name of the record: its values, in the order of the file."""
    return {
        "Run": RUNS,
        "Edit": EDITS,
        "Times": TIMES,
        "Routing": ROUTINGS,
        "Resources": RESOURCES,
        "OperatorConfiguration": OPERATORS,
        "Configuration": CONFIGURATIONS,
        "Change": CHANGES,
        "Strategy": STRATEGIES,
        "Step": STEPS,
        "Event": events(),
        "EventMoment": MOMENTS,
        "Record": RECORDS,
        "Coordination": COORDINATIONS,
        "Plan": PLANS,
        "Entry": entries(),
        "JournalState": states(),
        "Telemetry": EVENTS,
        "Holder": HOLDERS,
    }
