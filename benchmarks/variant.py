"""The process of one variant: ``python -m benchmarks.variant FUNCTION PARAMETERS FILE [CPU ...]``.

FUNCTION is ``package.module:name``, PARAMETERS a JSON object with which it is called, FILE where
the JSON object that it returns is written. CPUs pin the process and everything that it starts.
Whatever it prints is shown as progress.
"""

from __future__ import annotations

import importlib
import json
import os
import sys
from pathlib import Path
from typing import Any


def main(argv: list[str]) -> int:
    """Run one variant; see the module."""
    function, parameters, result = argv[:3]
    pin([int(cpu) for cpu in argv[3:]])
    module, name = function.split(":")
    measure = getattr(importlib.import_module(module), name)
    measurement: Any = measure(json.loads(parameters))
    Path(result).write_text(json.dumps(measurement, allow_nan=False), encoding="utf-8")
    return 0


def pin(cpus: list[int]) -> None:
    """Keep this process, and every process that it starts from now on, on `cpus`; all if empty."""
    if not cpus:
        return
    if not hasattr(os, "sched_setaffinity"):
        raise RuntimeError("this system cannot pin processes to CPUs; run this benchmark on Linux")
    os.sched_setaffinity(0, cpus)


def report(text: str) -> None:
    """Tell the waiting human where this variant stands."""
    print(text, flush=True)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
