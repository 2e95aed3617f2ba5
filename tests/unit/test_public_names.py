"""The public names: what users import may not change by accident."""

from __future__ import annotations

import inspect
from importlib import import_module
from operator import attrgetter

import pytest

import rechannel as rc

ROOT = [
    "BatchResult",
    "Durability",
    "InProcess",
    "Job",
    "OpenTelemetry",
    "Patience",
    "RechannelError",
    "Reconfiguration",
    "RunningJob",
    "Settings",
    "__version__",
    "advise",
    "aggregates",
    "at_most",
    "between",
    "changes",
    "compare_profiles",
    "computed",
    "control",
    "dead_letters",
    "errors",
    "every",
    "expectations",
    "for_each_batch",
    "formats",
    "frames",
    "monitoring",
    "profile",
    "profile_session",
    "read",
    "read_output",
    "run_batch",
    "scaling_advice",
    "session",
    "sinks",
    "sources",
    "states",
    "strategies",
    "testing",
    "windows",
]

GROUPS = {
    "aggregates": (
        "count count_distinct cumulative difference first lag last last_n max mean min stddev sum"
        " variance"
    ),
    "changes": (
        "Plan Routing UpgradePlan add assign_logic assign_resources assign_workload change_dataflow"
        " change_logic combine executors gather merge migrate move place rebalance remove rescale"
        " rewrite set_bound set_in_flight set_interval split spread watermark"
    ),
    "control": (
        "Control ControlChannel Controller HeavyKey ImportPath Installation Operation OperatorHandler Outcome"
        " TaskReply TaskView Trigger by_hand every install library on operation when"
    ),
    "control.library": "AutoScale Autopilot Balance BatchInterval Guard ModelUpdate Monitor Placement SkewJoin",
    "frames": "BroadcastTable Context GroupFrame KeyedFrame ProcessFrame Rows Timer",
    "monitoring": (
        "Act Amount BadRows ControllerDecisions ControllerStatus CostFit CriticalPath CurvePoint DataflowNode"
        " Decided EditedState Flow JobListener JobStatus LatencyFigures LettersOf OperatorBins OperatorNeed"
        " OperatorProgress OperatorStatus PhaseTimes ReconfigurationSummary Replay ReplayedLetters ReplayedRows"
        " ReplayedState SavepointStatus SinkProgress SinkStatus SlowestTask SourceLag Steps StreamAdvice"
        " StreamNeeds TimestepProgress WindowFigures read_events"
    ),
    "expectations": "between in_set matches_regex not_null satisfies",
    "formats": "Format Registry avro avro_schema json protobuf registry",
    "sinks": "Batch",
    "sources": "MemoryConnector",
    "states": "list_state map_state value_state",
    "strategies": "all_at_once batched fluid optimized",
    "windows": "counting same_window sessions sliding tumbling",
}


def test_the_root_is_as_agreed() -> None:
    assert rc.__all__ == ROOT
    assert dir(rc) == sorted(ROOT)


@pytest.mark.parametrize("group", GROUPS)
def test_the_groups_are_as_agreed(group: str) -> None:
    assert sorted(import_module(f"rechannel.{group}").__all__) == sorted(GROUPS[group].split())
    assert attrgetter(group)(rc) is import_module(f"rechannel.{group}")


@pytest.mark.parametrize("name", ROOT)
def test_every_name_of_the_root_is_there_and_explained(name: str) -> None:
    value = getattr(rc, name)
    if name != "__version__":
        assert inspect.getdoc(value)


@pytest.mark.parametrize("group", GROUPS)
def test_every_name_of_a_group_is_there_and_explained(group: str) -> None:
    for name in GROUPS[group].split():
        assert inspect.getdoc(getattr(attrgetter(group)(rc), name)), name


def test_every_error_is_public() -> None:
    classes = {
        name
        for name, value in vars(rc.errors).items()
        if inspect.isclass(value) and value.__module__ == rc.errors.__name__
    }
    assert set(rc.errors.__all__) == classes


def test_an_unknown_name_is_refused() -> None:
    with pytest.raises(AttributeError, match=r"no attribute 'nothing'$"):
        _ = rc.nothing
    for group in (rc.sources, rc.sinks):
        with pytest.raises(AttributeError, match=r"no attribute 'nothing'$"):
            _ = group.nothing


@pytest.mark.parametrize(
    ("name", "home"),
    [("count", "aggregates"), ("tumbling", "windows"), ("rescale", "changes"), ("Batch", "sinks")],
)
def test_a_name_that_is_in_a_group_is_refused_with_its_group(name: str, home: str) -> None:
    with pytest.raises(AttributeError, match=f"use rechannel.{home}.{name}$"):
        getattr(rc, name)
