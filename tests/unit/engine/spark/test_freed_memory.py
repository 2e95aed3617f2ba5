"""A worker keeps the memory that a task has freed: the kernel clears no page anew for the next one."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from rechannel.engine.spark.freed_memory import ARROW, KEPT_MS

TASKS = """
import ctypes, resource, sys
ctypes.CDLL(None).prctl(41, 1, 0, 0, 0)  # PR_SET_THP_DISABLE: a huge page is one fault for 512
from rechannel.engine.spark.freed_memory import keep
if sys.argv[1] == "keep":
    keep()
import numpy as np

def task():
    first, second = np.ones(1_000_000), np.ones(1_000_000)
    return first[:10] + second[:10]

def faults():
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt

task()
task()
before = faults()
for _ in range(20):
    task()
print(faults() - before)
"""

WORKER = """
import os, sys
import rechannel.engine.spark.daemon
import pyspark.worker
from rechannel.engine.spark import freed_memory
called = []
freed_memory.keep = lambda: called.append("numpy" in sys.modules or "pyarrow" in sys.modules)
import rechannel.engine.spark.calls
print(called)
"""


def printed(program, *given, **environment):
    """What a program prints in a process of its own, whose environment says nothing else of allocators."""
    own = {name: value for name, value in os.environ.items() if "MALLOC" not in name}
    done = subprocess.run(
        [sys.executable, "-c", program, *given],
        capture_output=True,
        text=True,
        check=True,
        env={**own, **environment},
    )
    return done.stdout.strip()


@pytest.mark.skipif(sys.platform != "linux", reason="glibc is what gives memory back at once")
def test_arrays_of_a_task_are_made_of_what_the_one_before_freed():
    given_back, kept = (int(printed(TASKS, how)) for how in ("give back", "keep"))
    assert given_back > 1_000, "this C library keeps it without being told"
    assert kept < given_back / 10


@pytest.mark.skipif(sys.platform != "linux", reason="glibc is what gives memory back at once")
@pytest.mark.parametrize(
    "said",
    [
        {"MALLOC_TRIM_THRESHOLD_": "131072", "MALLOC_MMAP_THRESHOLD_": "131072"},
        {"GLIBC_TUNABLES": "glibc.malloc.trim_threshold=131072:glibc.malloc.mmap_threshold=131072"},
    ],
)
def test_what_the_environment_says_of_glibc_counts(said):
    assert int(printed(TASKS, "keep", **said)) > 1_000


def test_what_the_environment_says_of_arrow_counts():
    shown = f"""
import os
from rechannel.engine.spark.freed_memory import keep
keep()
print(os.environ[{ARROW!r}])
"""
    assert printed(shown) == str(KEPT_MS)
    assert printed(shown, **{ARROW: "10"}) == "10"


def test_it_comes_before_numpy_and_arrow():
    assert printed(WORKER) == "[False]"
