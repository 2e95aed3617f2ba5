"""Thousands of timesteps in one session: nothing grows."""

import gc
import time
from collections import deque
from pathlib import Path
from statistics import mean

import pytest

import rechannel as rc
from rechannel import aggregates as agg
from rechannel.engine.loop.housekeeping import Housekeeper
from tests.spark.programs import (
    PATIENCE,
    PLAIN,
    entries,
    files_under,
    session,
    with_branch,
)

PER_SAMPLE = 48
"""Timesteps between two samples: a multiple of those between two sweeps of files, and between two snapshots."""

ROWS = 40
"""Rows of a timestep."""

EVERY = 6
"""Timesteps between two reconfigurations."""


class Clock:
    """Time that stands still until rows are wanted: one per millisecond."""

    def __init__(self):
        self.now = time.time() * 1e3

    def __call__(self):
        return self.now

    def advance(self, timesteps):
        """Make the rows of some timesteps due."""
        self.now += timesteps * ROWS


def flows(timesteps_seen):
    """Two operators in a row, with a function behind each."""
    source = rc.read().generator(
        entries, schema="number BIGINT, account BIGINT, amount DOUBLE",
        rows_per_second=1000, per_timestep=ROWS, partitions=2, name="entries",
    )  # fmt: skip
    sums = source.key_by("account").aggregate(n=agg.count(), s=agg.sum("amount"), name="sums")
    columns = "account BIGINT, n BIGINT, s DOUBLE, branch BIGINT"
    keyed = sums.map_batches(with_branch, schema=columns).key_by("branch")
    branches = keyed.aggregate(n=agg.count(), name="branches")
    return branches.write.for_each_batch(lambda df, timestep: timesteps_seen.append(timestep))


CHANGES = (
    lambda: rc.changes.rescale("sums", 4),
    lambda: [rc.changes.split("sums", 3), rc.changes.combine("branches", "off")],
    lambda: rc.changes.move("branches", [0, 1, 2], 1),
    lambda: rc.changes.rescale("branches", 3),
    lambda: [rc.changes.merge("sums", [3, 4]), rc.changes.combine("branches", "auto")],
    lambda: rc.changes.rescale("sums", 2),
    lambda: rc.changes.rescale("branches", 2),
)
LOGIC = (
    {"n": agg.count(), "s": agg.sum("amount"), "m": agg.max("amount")},
    {"n": agg.count(), "s": agg.sum("amount")},
)
"""Changes that lead back to where they began, so that nothing grows because of what was asked for."""


def change(running, turn):
    """Ask for other logic now, and for the next changes at timesteps that are to come."""
    now = running.status.timestep or 0
    asked = [running.reconfigure(rc.changes.change_logic("sums", LOGIC[turn % 2]))]
    per_turn = PER_SAMPLE // EVERY - 1
    for i in range(per_turn):
        made = CHANGES[(turn * per_turn + i) % len(CHANGES)]()
        asked.append(running.reconfigure(made, rc.strategies.batched(2), at=now + (i + 1) * EVERY))
    return asked


def samples(spark, place, number, per_sample, *, changing=False):
    """Run, pause now and then, and look at what is held. changing: reconfigure every few timesteps."""
    seen, clock, out = deque(maxlen=1), Clock(), []
    settings = rc.Settings(**PLAIN)
    job = rc.Job("soak", flows(seen), state=f"{place}/state", settings=settings, spark=spark)
    running = job.start(clock=clock)
    running.process_all_available(PATIENCE)
    done = 0
    for i in range(number):
        asked = change(running, i) if changing else []
        clock.advance(per_sample)
        running.process_all_available(PATIENCE)
        done += sum(handle.phase == "done" for handle in asked)
        assert running.status.timestep == seen[0] == (i + 1) * per_sample
        out.append(sample(spark, place, running))
    running.stop()
    assert not changing or done > 2 * number, done
    return out


def sample(spark, place, running):
    """Sizes of everything that might grow."""
    housekeeper = next(part for part in parts_of(running) if isinstance(part, Housekeeper))
    housekeeper.finish()
    java = spark.sparkContext._jvm.java.lang.ProcessHandle.current().pid()
    held = files_under(f"{place}/state")
    # Events and history are records: they grow on purpose.
    records = ("telemetry", "reconfigurations")
    kept = {name: size for name, size in held.items() if not name.startswith(records)}
    gc.collect()
    return {
        "heap": heap(spark),
        "registries": sum(len(part) for part in parts_of(running) if hasattr(part, "__len__")),
        "objects": len(gc.get_objects()),
        "open-python": open_files("self"),
        "open-java": open_files(java),
        "shuffle": len(files_under(spark.conf.get("spark.local.dir"), "shuffle_*")),
        "local": len(files_under(spark.conf.get("spark.local.dir"))),
        "state-files": len(kept),
        "state-bytes": sum(kept.values()),
    }


def heap(spark):
    """Bytes that the driver's JVM holds, when what a collection finds has been let go: Spark cleans up behind it."""
    lang = spark.sparkContext._jvm.java.lang
    held = []
    for _ in range(4):
        lang.System.gc()
        time.sleep(0.1)
        held.append(
            lang.management.ManagementFactory.getMemoryMXBean().getHeapMemoryUsage().getUsed()
        )
    return min(held)


def open_files(pid):
    return sum(1 for _ in Path(f"/proc/{pid}/fd").iterdir())


def parts_of(root):
    """All objects of this library that an object holds, and all collections in them."""
    found, todo = {}, [root]
    while todo:
        part = todo.pop()
        if id(part) in found:
            continue
        if isinstance(part, dict):
            below = [*part.keys(), *part.values()]
        elif isinstance(part, (list, tuple, set, frozenset, deque)):
            below = list(part)
        elif type(part).__module__.startswith("rechannel."):
            below = list(getattr(part, "__dict__", {}).values())
            below += [getattr(part, n, None) for n in getattr(type(part), "__slots__", ())]
        else:
            continue
        found[id(part)] = part
        todo.extend(below)
    return list(found.values())


def fifths(values):
    """Mean of the second and of the last fifth."""
    size = len(values) // 5
    return mean(values[size : 2 * size]), mean(values[-size:])


@pytest.mark.slow  # tests/unit/engine/loop/test_bounded.py has it in process
def test_a_short_run_leaves_nothing_open(spark, tmp_path):
    seen = samples(spark, tmp_path, 5, 6)
    for what in ("open-python", "open-java", "shuffle"):
        second, last = fifths([each[what] for each in seen])
        assert last <= second + 2, (what, [each[what] for each in seen])


def drive(place, number):
    """The long run, in a session of its own, under a reconfiguration every few timesteps."""
    return samples(session(place), place, number, PER_SAMPLE, changing=True)


@pytest.mark.slow
def test_a_long_run_holds_no_more_at_its_end(child, tmp_path, record_property):
    number = 5000 // PER_SAMPLE + 1
    seen = child(drive, place=str(tmp_path), number=number).result(3600)
    assert len(seen) == number
    grown = {}
    for what in seen[0]:
        second, last = fifths([each[what] for each in seen])
        record_property(what, (second, last))
        if last > second * 1.05 + 2:
            grown[what] = (second, last)
    assert not grown
    assert (Path(tmp_path) / "state").exists()
