"""Rechannel: streams on Spark that can be changed while they run.

    import rechannel as rc
    from rechannel import aggregates as agg

The root has what every program needs. The rest is grouped: `rc.aggregates`, `rc.windows`, `rc.changes`,
`rc.strategies`, `rc.states` (of `process`), `rc.control`
(controllers), `rc.expectations` (on rows), `rc.formats` (of records),
`rc.frames` (what user functions receive), `rc.monitoring` (what a job reports), `rc.sources`,
`rc.sinks`, `rc.errors`, `rc.testing`.

Names are loaded when they are first used: importing the package costs nothing and needs neither Spark nor Java.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from rechannel.version import __version__

if TYPE_CHECKING:
    from rechannel import (
        aggregates,
        changes,
        control,
        errors,
        expectations,
        formats,
        frames,
        monitoring,
        sinks,
        sources,
        states,
        strategies,
        testing,
        windows,
    )
    from rechannel.advising.api import scaling_advice
    from rechannel.batch import BatchResult, run_batch
    from rechannel.bridge import for_each_batch
    from rechannel.dataflow.streams.columns import computed
    from rechannel.dataflow.streams.joins import between
    from rechannel.dataflow.streams.letters import dead_letters
    from rechannel.dataflow.streams.reader import read
    from rechannel.dataflow.streams.windowing import every
    from rechannel.engine.spark.session.session import advise, session
    from rechannel.errors import RechannelError
    from rechannel.exporting.opentelemetry import OpenTelemetry
    from rechannel.job import Job
    from rechannel.job_seams import InProcess
    from rechannel.model.bad_rows import at_most
    from rechannel.model.patience import Patience
    from rechannel.profiling.api import compare_profiles, profile, profile_session
    from rechannel.running import Reconfiguration, RunningJob
    from rechannel.settings import Settings
    from rechannel.sinks.dataset.reading import read_output
    from rechannel.state.stores.local import Durability

_HOMES = {
    "BatchResult": "rechannel.batch",
    "Durability": "rechannel.state.stores.local",
    "InProcess": "rechannel.job_seams",
    "Job": "rechannel.job",
    "OpenTelemetry": "rechannel.exporting.opentelemetry",
    "Patience": "rechannel.model.patience",
    "RechannelError": "rechannel.errors",
    "Reconfiguration": "rechannel.running",
    "RunningJob": "rechannel.running",
    "Settings": "rechannel.settings",
    "advise": "rechannel.engine.spark.session.session",
    "at_most": "rechannel.model.bad_rows",
    "between": "rechannel.dataflow.streams.joins",
    "compare_profiles": "rechannel.profiling.api",
    "computed": "rechannel.dataflow.streams.columns",
    "dead_letters": "rechannel.dataflow.streams.letters",
    "every": "rechannel.dataflow.streams.windowing",
    "for_each_batch": "rechannel.bridge",
    "profile": "rechannel.profiling.api",
    "profile_session": "rechannel.profiling.api",
    "read": "rechannel.dataflow.streams.reader",
    "read_output": "rechannel.sinks.dataset.reading",
    "run_batch": "rechannel.batch",
    "scaling_advice": "rechannel.advising.api",
    "session": "rechannel.engine.spark.session.session",
}
"""The module of each name in the root."""

_GROUPS = (
    "aggregates",
    "changes",
    "control",
    "errors",
    "expectations",
    "formats",
    "frames",
    "monitoring",
    "sinks",
    "sources",
    "states",
    "strategies",
    "testing",
    "windows",
)
"""Modules of public names."""


def __getattr__(name: str) -> Any:
    """Load a public name on first use."""
    if name in _GROUPS:
        return import_module(f"rechannel.{name}")
    home = _HOMES.get(name)
    if home is None:
        raise AttributeError(_unknown(name))
    return getattr(import_module(home), name)


def _unknown(name: str) -> str:
    """What to say about a name that the root does not have."""
    msg = f"module 'rechannel' has no attribute {name!r}"
    if name.startswith("_"):
        return msg
    found = [each for each in _GROUPS if name in _public(each)]
    return f"{msg}; use rechannel.{found[0]}.{name}" if found else msg


def _public(group: str) -> list[str]:
    names: list[str] = import_module(f"rechannel.{group}").__all__
    return names


def __dir__() -> list[str]:
    """The public names."""
    return sorted(__all__)


__all__ = [
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
