"""All operators with state, one line each: whatever goes through all of them begins here.

A new operator is a folder or files in its family's folder (spec, logic, tests) and one line below.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from rechannel.operators.aggregate.spec import AggregateSpec, ReduceSpec
from rechannel.operators.join.asof_spec import AsofSpec
from rechannel.operators.join.cogroup_spec import CogroupSpec
from rechannel.operators.join.lookup_spec import LookupSpec
from rechannel.operators.join.spec import JoinSpec
from rechannel.operators.ordered.event_time_sort_spec import EventTimeSortSpec
from rechannel.operators.ordered.running_spec import RunningSpec
from rechannel.operators.ordered.top_spec import TopSpec
from rechannel.operators.process.deduplicate_spec import DeduplicateSpec
from rechannel.operators.process.process_spec import ProcessBatchesSpec, ProcessSpec
from rechannel.operators.process.track_spec import TrackBatchesSpec, TrackSpec
from rechannel.operators.spec import OperatorSpec
from rechannel.operators.window.apply_spec import ApplySessionSpec, ApplySpec
from rechannel.operators.window.counted_spec import CountedSpec
from rechannel.operators.window.session_spec import SessionSpec
from rechannel.operators.window.spec import WindowSpec


@dataclass(frozen=True, slots=True)
class Registered:
    """One operator."""

    spec: type[OperatorSpec]
    method: str
    """How a user asks for it: a method of a stream, of a keyed or a windowed one."""
    page: str
    """Page of `docs/` that explains it."""
    first_module: str | None = None
    """Module of the spec when journals first had digests of it; None = the present one."""
    first_name: str | None = None
    """Name of the spec at that time; None = the present one."""

    @property
    def family(self) -> str:
        """The folder that it lives in."""
        return self.spec.__module__.split(".")[2]


OPERATORS = (
    Registered(AggregateSpec, "aggregate", "operators.md", "rechannel.dataflow.specs"),
    Registered(ReduceSpec, "running_reduce", "operators.md", "rechannel.dataflow.specs"),
    Registered(TrackSpec, "track", "operators.md", "rechannel.dataflow.specs"),
    Registered(TrackBatchesSpec, "track_batches", "operators.md", "rechannel.dataflow.specs"),
    Registered(ProcessSpec, "process", "process-function.md"),
    Registered(ProcessBatchesSpec, "process_batches", "process-function.md"),
    Registered(DeduplicateSpec, "deduplicate", "operators.md", "rechannel.dataflow.specs"),
    Registered(WindowSpec, "window", "event-time.md", "rechannel.dataflow.window_specs"),
    Registered(SessionSpec, "window", "event-time.md", "rechannel.dataflow.window_specs"),
    Registered(CountedSpec, "window", "rows-in-order.md", "rechannel.dataflow.counted"),
    Registered(ApplySpec, "apply_batches", "event-time.md", "rechannel.dataflow.groupwise"),
    Registered(ApplySessionSpec, "apply_batches", "event-time.md", "rechannel.dataflow.groupwise"),
    Registered(JoinSpec, "join", "joins.md", "rechannel.dataflow.joins"),
    Registered(AsofSpec, "asof_join", "joins.md", "rechannel.dataflow.asof"),
    Registered(CogroupSpec, "cogroup", "joins.md", "rechannel.dataflow.cogroups"),
    Registered(LookupSpec, "lookup", "joins.md", "rechannel.dataflow.lookups"),
    Registered(TopSpec, "top", "operators.md", "rechannel.dataflow.tops"),
    Registered(RunningSpec, "running", "rows-in-order.md", "rechannel.dataflow.runnings"),
    Registered(
        EventTimeSortSpec,
        "running",
        "rows-in-order.md",
        "rechannel.dataflow.runnings",
        "ArrangeSpec",
    ),
)
"""Every operator that a dataflow can have."""

FIRST_MODULES: Mapping[str, str] = {
    each.spec.__module__: each.first_module for each in OPERATORS if each.first_module is not None
}
"""First name of every module of specs that has moved, by its present name."""

FIRST_NAMES: Mapping[type, str] = {
    each.spec: each.first_name for each in OPERATORS if each.first_name is not None
}
"""First name of every spec that has been renamed."""
