"""Names under which digests know what has moved: a digest that was journalled stays the same wherever its code lives.

Digests of instances and functions contain `module:qualname` (see `digests`). A module that moves keeps its first name
here for ever; so does a class, a function or a field that is renamed.
"""

from __future__ import annotations

from rechannel.operators.registry import FIRST_MODULES as SPECS
from rechannel.operators.registry import FIRST_NAMES

FIRST_MODULES = {
    "rechannel.kernels.columnar.concatenate": "rechannel.kernels.joined",
    "rechannel.kernels.columnar.digits": "rechannel.kernels.digits",
    "rechannel.kernels.columnar.exact": "rechannel.kernels.exact",
    "rechannel.kernels.columnar.groups": "rechannel.kernels.groups",
    "rechannel.kernels.columnar.overflow": "rechannel.kernels.overflow",
    "rechannel.kernels.columnar.ranking": "rechannel.kernels.ranking",
    "rechannel.kernels.columnar.reductions": "rechannel.kernels.segments",
    "rechannel.kernels.columnar.sorting": "rechannel.kernels.sorting",
    "rechannel.kernels.columnar.sparse": "rechannel.kernels.spreading",
    "rechannel.kernels.functions.dead_letters": "rechannel.kernels.dead_letters",
    "rechannel.kernels.functions.masks": "rechannel.kernels.masks",
    "rechannel.kernels.functions.python_rows": "rechannel.kernels.track_rows",
    "rechannel.kernels.functions.resources": "rechannel.kernels.resources",
    "rechannel.kernels.functions.row_functions": "rechannel.kernels.row_functions",
    "rechannel.kernels.functions.select": "rechannel.kernels.columns",
    "rechannel.kernels.functions.user_errors": "rechannel.kernels.user_errors",
    "rechannel.kernels.lsm.ahead": "rechannel.kernels.ahead",
    "rechannel.kernels.lsm.collect": "rechannel.kernels.collect",
    "rechannel.kernels.lsm.footprint": "rechannel.kernels.stored",
    "rechannel.kernels.lsm.hash_filter": "rechannel.kernels.sieve",
    "rechannel.kernels.lsm.lookup": "rechannel.kernels.lookup",
    "rechannel.kernels.lsm.merge": "rechannel.kernels.merge",
    "rechannel.kernels.lsm.prefetch": "rechannel.kernels.prefetch",
    "rechannel.kernels.lsm.runs": "rechannel.kernels.runs",
    "rechannel.kernels.lsm.scan": "rechannel.kernels.scan",
    "rechannel.kernels.protocol.bases": "rechannel.kernels.plain",
    "rechannel.kernels.protocol.logic": "rechannel.kernels.logic",
    "rechannel.kernels.protocol.migrate": "rechannel.kernels.migrate",
    "rechannel.kernels.protocol.program": "rechannel.kernels.program",
    "rechannel.kernels.protocol.two_sides": "rechannel.kernels.sides",
    "rechannel.kernels.shuffle.receive": "rechannel.kernels.receive",
    "rechannel.kernels.shuffle.send": "rechannel.kernels.send",
    "rechannel.kernels.shuffle.spool": "rechannel.kernels.spool",
    "rechannel.kernels.shuffle.watermarks": "rechannel.kernels.marks",
    "rechannel.kernels.shuffle.wire": "rechannel.kernels.wire",
    "rechannel.kernels.tasks.binned": "rechannel.kernels.binned",
    "rechannel.kernels.tasks.clocks": "rechannel.kernels.clocks",
    "rechannel.kernels.tasks.emission": "rechannel.kernels.showing",
    "rechannel.kernels.tasks.emit": "rechannel.kernels.emit",
    "rechannel.kernels.tasks.kept_rows": "rechannel.kernels.kept",
    "rechannel.kernels.tasks.load": "rechannel.kernels.load",
    "rechannel.kernels.tasks.measure": "rechannel.kernels.measure",
    "rechannel.kernels.tasks.parts": "rechannel.kernels.parts",
    "rechannel.kernels.tasks.source_task": "rechannel.kernels.front",
    "rechannel.kernels.tasks.stateful_task": "rechannel.kernels.stateful",
    "rechannel.kernels.tasks.storing": "rechannel.kernels.storing",
    "rechannel.operators.aggregate.functions": "rechannel.kernels.aggregates",
    "rechannel.operators.aggregate.functions.byte_order": "rechannel.kernels.aggregates.byte_order",
    "rechannel.operators.aggregate.functions.count": "rechannel.kernels.aggregates.count",
    "rechannel.operators.aggregate.functions.distinct": "rechannel.kernels.aggregates.distinct",
    "rechannel.operators.aggregate.functions.edges": "rechannel.kernels.aggregates.edges",
    "rechannel.operators.aggregate.functions.extremes": "rechannel.kernels.aggregates.extremes",
    "rechannel.operators.aggregate.functions.inputs": "rechannel.kernels.aggregates.inputs",
    "rechannel.operators.aggregate.functions.integers": "rechannel.kernels.aggregates.integers",
    "rechannel.operators.aggregate.functions.last_n": "rechannel.kernels.aggregates.last_n",
    "rechannel.operators.aggregate.functions.lists": "rechannel.kernels.aggregates.lists",
    "rechannel.operators.aggregate.functions.messages": "rechannel.kernels.aggregates.messages",
    "rechannel.operators.aggregate.functions.moments": "rechannel.kernels.aggregates.moments",
    "rechannel.operators.aggregate.functions.sums": "rechannel.kernels.aggregates.sums",
    "rechannel.operators.aggregate.functions.totals": "rechannel.kernels.aggregates.totals",
    "rechannel.operators.aggregate.logic": "rechannel.kernels.aggregate_logic",
    "rechannel.operators.aggregate.reduce": "rechannel.kernels.reduce",
    "rechannel.operators.aggregate.running_states": "rechannel.kernels.prefix",
    "rechannel.operators.aggregate.running_totals": "rechannel.kernels.running_totals",
    "rechannel.operators.join.asof": "rechannel.kernels.asof",
    "rechannel.operators.join.cogroup": "rechannel.kernels.cogroup",
    "rechannel.operators.join.logic": "rechannel.kernels.join",
    "rechannel.operators.join.lookup": "rechannel.kernels.table",
    "rechannel.operators.join.two_inputs": "rechannel.kernels.twosided",
    "rechannel.operators.ordered.event_time_sort": "rechannel.kernels.arrange",
    "rechannel.operators.ordered.running": "rechannel.kernels.running",
    "rechannel.operators.ordered.running_functions": "rechannel.kernels.running_functions",
    "rechannel.operators.ordered.top": "rechannel.kernels.top",
    "rechannel.operators.process.deduplicate": "rechannel.kernels.deduplicate",
    "rechannel.operators.process.spacing": "rechannel.kernels.spacing",
    "rechannel.operators.process.timers": "rechannel.kernels.timers",
    "rechannel.operators.process.track": "rechannel.kernels.track",
    "rechannel.operators.process.track_frame": "rechannel.kernels.track_frame",
    "rechannel.operators.process.tracking": "rechannel.kernels.tracking",
    "rechannel.operators.window.counted": "rechannel.kernels.counted",
    "rechannel.operators.window.group_frame": "rechannel.kernels.group_frame",
    "rechannel.operators.window.groupwise": "rechannel.kernels.groupwise",
    "rechannel.operators.window.incremental": "rechannel.kernels.slides",
    "rechannel.operators.window.logic": "rechannel.kernels.windows",
    "rechannel.operators.window.panes": "rechannel.kernels.panes",
    "rechannel.operators.window.reduce": "rechannel.kernels.window_reduce",
    "rechannel.operators.window.session_apply": "rechannel.kernels.session_apply",
    "rechannel.operators.window.session_rows": "rechannel.kernels.session_rows",
    "rechannel.operators.window.sessions": "rechannel.kernels.sessions",
    "rechannel.operators.window.sliding": "rechannel.kernels.sliding",
}
"""First name of every module that has moved, by its present name; those of specs are in `operators.registry`."""


def first_name(kind: type) -> str:
    """Return the name that digests use for a class."""
    return f"{first_module(kind.__module__)}:{FIRST_NAMES.get(kind, kind.__qualname__)}"


def first_module(module: str) -> str:
    """Return the name that digests use for a module."""
    return SPECS.get(module) or FIRST_MODULES.get(module, module)
