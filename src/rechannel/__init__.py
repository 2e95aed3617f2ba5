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
    from rechannel.dataflow.functions import (
        count,
        count_distinct,
        first,
        last,
        last_n,
        max,
        mean,
        min,
        stddev,
        sum,
        variance,
    )
    from rechannel.dataflow.reader import read
    from rechannel.engine.spark.session import advise, session
    from rechannel.errors import RechannelError
    from rechannel.job import Job
    from rechannel.kernels.track_frame import KeyedFrame
    from rechannel.kernels.track_rows import Rows
    from rechannel.running import RunningJob
    from rechannel.settings import Settings
    from rechannel.sources.connectors import MemoryConnector
    from rechannel.state.local import Durability

_HOMES = {
    "Durability": "rechannel.state.local",
    "Job": "rechannel.job",
    "KeyedFrame": "rechannel.kernels.track_frame",
    "MemoryConnector": "rechannel.sources.connectors",
    "RechannelError": "rechannel.errors",
    "Rows": "rechannel.kernels.track_rows",
    "RunningJob": "rechannel.running",
    "Settings": "rechannel.settings",
    "advise": "rechannel.engine.spark.session",
    "count": "rechannel.dataflow.functions",
    "count_distinct": "rechannel.dataflow.functions",
    "first": "rechannel.dataflow.functions",
    "for_each_batch": "rechannel.bridge",
    "last": "rechannel.dataflow.functions",
    "last_n": "rechannel.dataflow.functions",
    "max": "rechannel.dataflow.functions",
    "mean": "rechannel.dataflow.functions",
    "min": "rechannel.dataflow.functions",
    "read": "rechannel.dataflow.reader",
    "run_batch": "rechannel.batch",
    "session": "rechannel.engine.spark.session",
    "stddev": "rechannel.dataflow.functions",
    "sum": "rechannel.dataflow.functions",
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
    "Durability",
    "Job",
    "KeyedFrame",
    "MemoryConnector",
    "RechannelError",
    "Rows",
    "RunningJob",
    "Settings",
    "__version__",
    "advise",
    "count",
    "count_distinct",
    "first",
    "for_each_batch",
    "last",
    "last_n",
    "max",
    "mean",
    "min",
    "read",
    "run_batch",
    "session",
    "stddev",
    "sum",
    "variance",
]
