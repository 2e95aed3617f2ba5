"""Changes of a running job: `job.reconfigure(rc.changes.rescale("users", tasks=8))`.

A change is a value. `job.plan` says what it would do, `job.reconfigure` carries it out; both take one change or a
list of changes, which is then atomic. `watermark` says when a change shall hold; `migrate` what becomes of state.
"""

from __future__ import annotations

from rechannel.dataflow.migration import migrate
from rechannel.model.routing import Routing
from rechannel.reconfigure.ask import (
    assign_logic,
    assign_resources,
    assign_workload,
    combine,
    executors,
    merge,
    move,
    place,
    rebalance,
    rescale,
    rewrite,
    set_bound,
    set_in_flight,
    set_interval,
    split,
)
from rechannel.reconfigure.moment import watermark
from rechannel.reconfigure.plan import Plan
from rechannel.reconfigure.program import add, change_dataflow, change_logic, remove

__all__ = [
    "Plan",
    "Routing",
    "add",
    "assign_logic",
    "assign_resources",
    "assign_workload",
    "change_dataflow",
    "change_logic",
    "combine",
    "executors",
    "merge",
    "migrate",
    "move",
    "place",
    "rebalance",
    "remove",
    "rescale",
    "rewrite",
    "set_bound",
    "set_in_flight",
    "set_interval",
    "split",
    "watermark",
]
