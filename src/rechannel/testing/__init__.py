"""The public test kit: run a dataflow in this process, step by step, and break it on purpose.

What it covers: every operator, source and function that needs no JVM, the journal, state, merging,
housekeeping, recovery and fencing: the code that runs on Spark, driven by one thread, so that a
test that failed once fails again.

What it does not cover: DataFrame functions, SQL conditions and sources that only Spark can read;
the writers of Spark's file formats (the kit collects the rows of every sink itself, or has file
writers on a `MemoryFolder`); the lease; what threads and processes do to each other beyond the
order of their steps; how long anything takes. Those need a job on Spark.
"""

from __future__ import annotations

from rechannel.state.stores.faulty import Crash, Fault, FaultKind, FaultyStore, Outage
from rechannel.state.stores.local import LocalStore
from rechannel.state.stores.memory import MemoryStore
from rechannel.state.stores.shared import SharedStore
from rechannel.testing.clock import ManualClock
from rechannel.testing.faults import TaskFaults
from rechannel.testing.folder import FaultyFolder, MemoryFolder
from rechannel.testing.harness import Harness
from rechannel.testing.process import Process
from rechannel.testing.recorder import Recorder
from rechannel.testing.source import script
from rechannel.testing.throttled import ThrottledStore

__all__ = [
    "Crash",
    "Fault",
    "FaultKind",
    "FaultyFolder",
    "FaultyStore",
    "Harness",
    "LocalStore",
    "ManualClock",
    "MemoryFolder",
    "MemoryStore",
    "Outage",
    "Process",
    "Recorder",
    "SharedStore",
    "TaskFaults",
    "ThrottledStore",
    "script",
]
