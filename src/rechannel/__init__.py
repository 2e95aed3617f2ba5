"""Rechannel: streams on Spark that can be changed while they run.

    import rechannel as rc

Names are loaded when they are first used: importing the package costs nothing and needs neither Spark nor Java.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from rechannel.version import __version__

if TYPE_CHECKING:
    from rechannel.batch import run_batch
    from rechannel.bridge import for_each_batch
    from rechannel.dataflow.columns import computed
    from rechannel.dataflow.functions import (
        count,
        count_distinct,
        cumulative,
        difference,
        first,
        lag,
        last,
        last_n,
        max,
        mean,
        min,
        stddev,
        sum,
        variance,
    )
    from rechannel.dataflow.joins import between
    from rechannel.dataflow.migration import migrate
    from rechannel.dataflow.reader import read
    from rechannel.dataflow.windowing import (
        counting,
        every,
        same_window,
        sessions,
        sliding,
        tumbling,
    )
    from rechannel.engine.spark.session.session import advise, session
    from rechannel.errors import RechannelError
    from rechannel.job import Job
    from rechannel.kernels.functions.python_rows import Rows
    from rechannel.model.patience import Patience
    from rechannel.operators.process.track_frame import KeyedFrame
    from rechannel.operators.window.group_frame import GroupFrame
    from rechannel.profiling.api import profile, profile_session
    from rechannel.reconfigure.ask import (
        all_at_once,
        assign_resources,
        assign_workload,
        batched,
        combine,
        executors,
        fluid,
        merge,
        move,
        optimized,
        place,
        rebalance,
        rescale,
        rewrite,
        set_bound,
        set_in_flight,
        set_interval,
        split,
    )
    from rechannel.reconfigure.moment import event_time
    from rechannel.reconfigure.plan import Plan
    from rechannel.reconfigure.program import add, change_dataflow, change_logic, remove
    from rechannel.running import Reconfiguration, RunningJob
    from rechannel.settings import Settings
    from rechannel.sinks.batch import Batch
    from rechannel.sources.connectors import MemoryConnector
    from rechannel.state.stores.local import Durability

_HOMES = {
    "Batch": "rechannel.sinks.batch",
    "Durability": "rechannel.state.stores.local",
    "GroupFrame": "rechannel.operators.window.group_frame",
    "Job": "rechannel.job",
    "KeyedFrame": "rechannel.operators.process.track_frame",
    "MemoryConnector": "rechannel.sources.connectors",
    "Plan": "rechannel.reconfigure.plan",
    "RechannelError": "rechannel.errors",
    "Reconfiguration": "rechannel.running",
    "Rows": "rechannel.kernels.functions.python_rows",
    "RunningJob": "rechannel.running",
    "Patience": "rechannel.model.patience",
    "Settings": "rechannel.settings",
    "add": "rechannel.reconfigure.program",
    "advise": "rechannel.engine.spark.session.session",
    "all_at_once": "rechannel.reconfigure.ask",
    "assign_resources": "rechannel.reconfigure.ask",
    "assign_workload": "rechannel.reconfigure.ask",
    "batched": "rechannel.reconfigure.ask",
    "between": "rechannel.dataflow.joins",
    "change_dataflow": "rechannel.reconfigure.program",
    "change_logic": "rechannel.reconfigure.program",
    "combine": "rechannel.reconfigure.ask",
    "computed": "rechannel.dataflow.columns",
    "count": "rechannel.dataflow.functions",
    "count_distinct": "rechannel.dataflow.functions",
    "counting": "rechannel.dataflow.windowing",
    "cumulative": "rechannel.dataflow.functions",
    "difference": "rechannel.dataflow.functions",
    "every": "rechannel.dataflow.windowing",
    "event_time": "rechannel.reconfigure.moment",
    "executors": "rechannel.reconfigure.ask",
    "first": "rechannel.dataflow.functions",
    "fluid": "rechannel.reconfigure.ask",
    "for_each_batch": "rechannel.bridge",
    "lag": "rechannel.dataflow.functions",
    "last": "rechannel.dataflow.functions",
    "last_n": "rechannel.dataflow.functions",
    "max": "rechannel.dataflow.functions",
    "mean": "rechannel.dataflow.functions",
    "merge": "rechannel.reconfigure.ask",
    "migrate": "rechannel.dataflow.migration",
    "min": "rechannel.dataflow.functions",
    "move": "rechannel.reconfigure.ask",
    "optimized": "rechannel.reconfigure.ask",
    "place": "rechannel.reconfigure.ask",
    "profile": "rechannel.profiling.api",
    "profile_session": "rechannel.profiling.api",
    "read": "rechannel.dataflow.reader",
    "rebalance": "rechannel.reconfigure.ask",
    "remove": "rechannel.reconfigure.program",
    "rescale": "rechannel.reconfigure.ask",
    "rewrite": "rechannel.reconfigure.ask",
    "same_window": "rechannel.dataflow.windowing",
    "run_batch": "rechannel.batch",
    "session": "rechannel.engine.spark.session.session",
    "sessions": "rechannel.dataflow.windowing",
    "set_bound": "rechannel.reconfigure.ask",
    "set_in_flight": "rechannel.reconfigure.ask",
    "set_interval": "rechannel.reconfigure.ask",
    "sliding": "rechannel.dataflow.windowing",
    "split": "rechannel.reconfigure.ask",
    "stddev": "rechannel.dataflow.functions",
    "sum": "rechannel.dataflow.functions",
    "tumbling": "rechannel.dataflow.windowing",
    "variance": "rechannel.dataflow.functions",
}


def __getattr__(name: str) -> Any:
    """Load a public name from its home."""
    home = _HOMES.get(name)
    if home is None:
        msg = f"module 'rechannel' has no attribute {name!r}"
        raise AttributeError(msg)
    return getattr(import_module(home), name)


def __dir__() -> list[str]:
    """The public names."""
    return sorted(__all__)


__all__ = [
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
