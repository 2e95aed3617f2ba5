"""The process that Spark forks Python workers from, with everything imported that tasks need.

Spark starts a worker when more tasks run at a time than ever before: after a rescale, of all times. A worker that has
to import numpy, pyarrow and this package first takes a second of CPU from the timesteps; one that is forked from here
is there at once, and shares the memory of all that.

Spark runs it as `python -m rechannel.engine.spark.daemon pyspark.worker` (setting `spark.python.daemon.module`). It
says its port on standard output, so nothing here may print.
"""

from __future__ import annotations

import gc
from collections.abc import Callable
from importlib import import_module
from typing import Any

NEEDED = (
    "pyspark.worker",
    "rechannel.engine.spark.calls",
    "rechannel.engine.spark.preparing",
    "rechannel.engine.spark.scanning",
    "rechannel.state.stores.local",
)
"""Modules that tasks would import."""


def main() -> None:
    """Import, put what is there out of the garbage collector's sight, and serve."""
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
    """A worker's main function that ends without a traceback when Spark hangs up on it, as it does at every stop."""

    def body(*given: Any) -> int:
        try:
            return worker(*given)
        except (BrokenPipeError, ConnectionResetError):
            return 1

    return body


if __name__ == "__main__":
    main()
