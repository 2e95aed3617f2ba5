"""Samples of the processes and of the store of a soak, taken by a thread."""

from __future__ import annotations

import json
import os
import re
import subprocess
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import asdict
from pathlib import Path

import psutil

from tests.real.soak.faults import World, command, processes
from tests.real.soak.samples import Limit, Sample

EVERY_S, STORE_EVERY_S = 5.0, 30.0
MIB = 1 << 20

DRIVER, DRIVER_JVM = "driver Python", "driver JVM"
EXECUTOR, WORKER = "executor JVM", "worker Python"
MEMORY, FILES, THREADS, HEAP = "memory MiB", "open files", "threads", "live heap MiB"
PREFIXES = ("journal", "snapshots", "segments", "outbox", "reconfigurations")

FULL_S = 1_800.0
"""After this time, a driver has everything of which it keeps a bounded amount: the tasks of its last 1,000 timesteps
take the longest. Until then its memory grows by some 50 MiB, most of which its allocators hold free."""

LIMITS: dict[str, Limit] = {
    f"{DRIVER}: {MEMORY}": Limit(most=500, per_hour=24, warm_up_s=FULL_S),
    f"{DRIVER}: {FILES}": Limit(most=300, per_hour=10),
    f"{DRIVER}: {THREADS}": Limit(most=120, per_hour=5),
    f"{DRIVER_JVM}: {MEMORY}": Limit(most=1_100, per_hour=64),
    f"{DRIVER_JVM}: {HEAP}": Limit(most=300, per_hour=24),
    f"{DRIVER_JVM}: {FILES}": Limit(most=800, per_hour=20),
    f"{DRIVER_JVM}: {THREADS}": Limit(most=350, per_hour=10),
    f"{EXECUTOR}: {MEMORY}": Limit(most=1_000, per_hour=64),
    f"{EXECUTOR}: {HEAP}": Limit(most=250, per_hour=24),
    f"{EXECUTOR}: {FILES}": Limit(most=800, per_hour=20),
    f"{EXECUTOR}: {THREADS}": Limit(most=200, per_hour=10),
    f"{WORKER}: {MEMORY}": Limit(most=500, per_hour=24),
    f"{WORKER}: {FILES}": Limit(most=500, per_hour=10),
    f"{WORKER}: {THREADS}": Limit(most=250, per_hour=5),
    "store: journal objects": Limit(most=1_100, per_hour=60),
    "store: journal KiB": Limit(most=4_096, per_hour=256),
    "store: segments objects": Limit(most=2_000, per_hour=200),
    "store: segments KiB": Limit(most=64 << 10, per_hour=4_096),
    "store: outbox objects": Limit(most=2_000, per_hour=60),
    "store: snapshots objects": Limit(most=20, per_hour=2),
}
"""Of memory, what is not shared with files or other processes counts. Live heap is what a full collection leaves.

A worker keeps up to 24 consumers of Kafka, which it has once enough partitions were added: with three brokers each has
six threads and some 14 descriptors. The journal
keeps the entries of up to three times 64 commits, five for each: intent, commit, and what three sinks have published.
That nothing grows is what the slopes say.
"""


class Watch:
    """A thread that takes samples."""

    def __init__(self, around: World, driver: Callable[[], list[int]], state: Path) -> None:
        """driver: the ids of the processes of drivers that run. state: where the store keeps the state."""
        self._around, self._driver, self._state = around, driver, state
        self.samples: list[Sample] = []
        self.begun = time.monotonic()
        self.failure: Exception | None = None
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._run, name="watch", daemon=True)

    def start(self) -> None:
        """Start the thread."""
        self._thread.start()

    def stop(self) -> None:
        """End the thread."""
        self._over.set()
        if self._thread.is_alive():
            self._thread.join(60)

    def write(self, file: Path) -> None:
        """Write all samples, an object of JSON in each line."""
        lines = (json.dumps(asdict(sample)) for sample in self.samples)
        file.write_text("\n".join(lines) + "\n")

    def _run(self) -> None:
        looked = float("-inf")
        try:
            while not self._over.wait(EVERY_S):
                for role, process in self._processes():
                    self._of_process(role, process)
                if time.monotonic() - looked >= STORE_EVERY_S:
                    looked = time.monotonic()
                    self._of_store()
        except Exception as error:
            self.failure = error

    def live_heaps(self) -> None:
        """Have the JVMs collect all garbage, and sample what is left."""
        for role, process in self._processes():
            if role not in {DRIVER_JVM, EXECUTOR}:
                continue
            asked = ["jcmd", str(process.pid), "GC.class_histogram"]
            said = subprocess.run(asked, capture_output=True, text=True, check=False, timeout=120)
            total = re.search(r"^Total\s+\d+\s+(\d+)", said.stdout, re.MULTILINE)
            if total is not None:
                self._take(f"{role}: {HEAP}", _life(process), int(total[1]) / MIB)

    def _take(self, what: str, of: str, value: float) -> None:
        at_s = time.monotonic() - self.begun
        self.samples.append(Sample(at_s=at_s, what=what, of=of, value=value))

    def _processes(self) -> Iterator[tuple[str, psutil.Process]]:
        for process in processes(self._driver()):
            yield DRIVER, process
            try:
                children = process.children(recursive=True)
            except psutil.NoSuchProcess:
                children = []
            # Spark's launcher is a shell for a moment.
            yield from ((DRIVER_JVM, each) for each in children if "SparkSubmit" in command(each))
        for address in self._around.cluster.network.hosts:
            for process in processes(self._around.cluster.network.processes(address)):
                line = command(process)
                if "CoarseGrainedExecutorBackend" in line:
                    yield EXECUTOR, process
                elif "pyspark" in line and "worker" in line and "java" not in line.split(" ")[0]:
                    yield WORKER, process

    def _of_process(self, role: str, process: psutil.Process) -> None:
        try:
            memory = process.memory_info()
            facts = {
                MEMORY: (memory.rss - memory.shared) / MIB,
                FILES: process.num_fds(),
                THREADS: process.num_threads(),
            }
            life = _life(process)
        except psutil.NoSuchProcess:
            return
        for name, value in facts.items():
            self._take(f"{role}: {name}", life, value)

    def _of_store(self) -> None:
        objects, kib = Counter[str](), Counter[str]()
        for folder, _, names in os.walk(self._state):
            group = Path(folder).relative_to(self._state).parts
            for name in names:
                objects[group[0] if group else ""] += 1
                try:
                    kib[group[0] if group else ""] += (Path(folder) / name).stat().st_size
                except FileNotFoundError:
                    continue
        for prefix in PREFIXES:
            self._take(f"store: {prefix} objects", "store", objects[prefix])
            self._take(f"store: {prefix} KiB", "store", kib[prefix] / 1_024)


def _life(process: psutil.Process) -> str:
    return f"{process.pid}-{process.create_time():.2f}"
