"""The process that Spark forks Python workers from, with the modules that tasks need already imported.

Spark starts a worker when more tasks run at once than ever before, which is typically just after a rescale. A worker
that first imports numpy, pyarrow and this package takes a second of CPU from the timesteps. A worker that is forked
from this process starts at once and shares the memory of these modules.

Spark runs it as `python -m rechannel.engine.spark.daemon pyspark.worker` (setting `spark.python.daemon.module`). It
writes its port to standard output, so no other code here may print.
"""

from __future__ import annotations

import gc
import os
import sys
from collections.abc import Callable, Sequence
from contextlib import suppress
from importlib import import_module
from typing import Any
from zipimport import zipimporter

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
    if "pyspark" not in sys.modules:
        sys.path[:] = without_archive(sys.path)
    load()
    daemon: Any = import_module("pyspark.daemon")
    if callable(getattr(daemon, "worker", None)):
        daemon.worker = quiet(daemon.worker)
    daemon.__dict__["print"] = import_module(
        "rechannel.engine.spark.session.quiet"
    ).print_unless_hung_up
    forget_archives()
    gc.collect()
    gc.freeze()
    daemon.manager()


def load() -> None:
    """Import the modules, and pandas where it is: Arrow imports it to make an array of Python objects."""
    for name in NEEDED:
        import_module(name)
    with suppress(ImportError):
        import_module("pandas")


ARCHIVE = "pyspark/python/lib/pyspark.zip"
"""Where an installed PySpark holds itself once more, as an archive."""


def without_archive(path: Sequence[str]) -> list[str]:
    """Return a module search path without PySpark's archive, if the very PySpark it belongs to is installed on it.

    Spark puts the archive first. Modules in it are compiled anew by every process, and every worker reads its table of
    contents again for each of its packages: half a second of an executor's first task.
    """
    # These functions, unlike methods of Path, do not raise where a directory cannot be read.
    held = [os.path.join(entry, ARCHIVE) for entry in path]  # noqa: PTH118
    same = {os.path.realpath(each) for each in held if os.path.isfile(each)}  # noqa: PTH113
    return [entry for entry in path if os.path.realpath(entry) not in same]


def forget_archives() -> None:
    """Drop what has been looked up in archives of the module search path; an import finds it again at no cost.

    A worker begins by invalidating what was looked up. Up to Python 3.12, that reads the whole table of contents of
    every archive: one of them is Spark's own, with thousands of classes.
    """
    found = sys.path_importer_cache
    for entry in [each for each, finder in found.items() if isinstance(finder, zipimporter)]:
        del found[entry]


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
