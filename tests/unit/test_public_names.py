"""The public names: what users import may not change by accident."""

from __future__ import annotations

import inspect

import pytest

import rechannel as rc

PUBLIC = [
    "Batch",
    "Durability",
    "GroupFrame",
    "Job",
    "KeyedFrame",
    "MemoryConnector",
    "Patience",
    "Plan",
    "RechannelError",
    "Reconfiguration",
    "Rows",
    "RunningJob",
    "Settings",
    "__version__",
    "add",
    "advise",
    "all_at_once",
    "assign_resources",
    "assign_workload",
    "batched",
    "between",
    "change_dataflow",
    "change_logic",
    "combine",
    "computed",
    "count",
    "count_distinct",
    "counting",
    "cumulative",
    "difference",
    "event_time",
    "every",
    "executors",
    "first",
    "fluid",
    "for_each_batch",
    "lag",
    "last",
    "last_n",
    "max",
    "mean",
    "merge",
    "migrate",
    "min",
    "move",
    "optimized",
    "place",
    "profile",
    "profile_session",
    "read",
    "rebalance",
    "remove",
    "rescale",
    "rewrite",
    "run_batch",
    "same_window",
    "session",
    "sessions",
    "set_bound",
    "set_in_flight",
    "set_interval",
    "sliding",
    "split",
    "stddev",
    "sum",
    "tumbling",
    "variance",
]


def test_the_list_is_as_agreed() -> None:
    assert rc.__all__ == PUBLIC
    assert dir(rc) == sorted(PUBLIC)


@pytest.mark.parametrize("name", PUBLIC)
def test_every_name_is_there_and_explained(name: str) -> None:
    value = getattr(rc, name)
    if name != "__version__":
        assert inspect.getdoc(value)


def test_an_unknown_name_is_refused() -> None:
    with pytest.raises(AttributeError, match="no attribute 'windows'"):
        _ = rc.windows
