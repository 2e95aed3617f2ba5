"""The process that Spark forks Python workers from, with the modules that tasks need already imported.

Spark starts a worker when more tasks run at once than ever before, which is typically just after a rescale. A worker
that first imports numpy, pyarrow and this package takes a second of CPU from the timesteps. A worker that is forked
from this process starts at once and shares the memory of these modules.

Spark runs it as `python -m rechannel.engine.spark.daemon pyspark.worker` (setting `spark.python.daemon.module`). It
writes its port to standard output, so no other code here may print.
"""

from __future__ import annotations

import gc
from collections.abc import Callable
from importlib import import_module
from typing import Any

NEEDED = (
    "rechannel.engine.spark.before_numpy",
    "pyspark.worker",
    "rechannel.engine.spark.calls",
    "rechannel.engine.spark.scanning",
    "rechannel.engine.spark.spark_preparer",
    "rechannel.state.stores.local",
)
"""Modules that tasks import, and with `spark_preparer` those that modules of users import from this package."""


def main() -> None:
    """Import the modules, freeze them for the garbage collector, and serve."""
    for name in NEEDED:
        import_module(name)
    gc.collect()
    gc.freeze()
    daemon: Any = import_module("pyspark.daemon")
    if callable(getattr(daemon, "worker", None)):
        daemon.worker = quiet(daemon.worker)
    daemon.__dict__["print"] = import_module(
        "rechannel.engine.spark.session.quiet"
    ).print_unless_hung_up
    daemon.manager()


def quiet(worker: Callable[..., int]) -> Callable[..., int]:
    """Wrap a worker's main function so that it exits without a traceback when Spark closes the connection."""

    def body(*given: Any) -> int:
        try:
            return worker(*given)
        except (BrokenPipeError, ConnectionResetError):
            return 1

    return body


if __name__ == "__main__":
    main()
