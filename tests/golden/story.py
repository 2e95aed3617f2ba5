"""What happens to the golden state directory: `begin` starts it, `go_on` continues it.

`begin` runs on the old commit only; its last driver dies in the middle of its work. `go_on` runs on every commit since,
on a copy: with the same input, changes, clock and names it has to write the same bytes.
"""

from __future__ import annotations

import base64
import hashlib
import json
import platform
import zlib
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from importlib.metadata import version
from itertools import count
from pathlib import Path
from typing import Any
from unittest import mock

import pyarrow as pa

from rechannel.dataflow.graph.nodes import Dataflow
from rechannel.engine.program import restarting, versions
from rechannel.kernels.lsm import runs
from rechannel.operators.process.deduplicate_spec import DeduplicateSpec
from rechannel.operators.window.sessions import SessionLogic
from rechannel.sinks.claims import Ledger
from rechannel.sinks.files import FileWriter
from rechannel.sinks.outlets import FileOutlet
from rechannel.sinks.writer import SinkWriter
from rechannel.state.keys import JOURNAL, SNAPSHOTS
from rechannel.testing import (
    Harness,
    ManualClock,
    MemoryFolder,
    MemoryStore,
    Process,
    Recorder,
    harness,
)
from tests.golden import program

STEPS_BEFORE_DEATH = 5_000
"""Most steps of the last driver's life: it dies as soon as two timesteps and a change are under way."""


def made_with() -> dict[str, str]:
    """What bytes and digests depend on beside the code."""
    minor = ".".join(platform.python_version_tuple()[:2])
    return {"python": minor, **{name: version(name) for name in ("numpy", "polars", "pyarrow")}}


class Recording(MemoryStore):
    """A store that remembers every file it ever held, also those that are gone."""

    def __init__(self, files: Mapping[str, bytes] | None = None) -> None:
        super().__init__()
        self.ever: dict[str, bytes] = {}
        for key, data in (files or {}).items():
            super().put(key, data)

    def put(self, key: str, data: bytes | memoryview | list[memoryview]) -> None:
        super().put(key, data)
        self.ever[key] = bytes(self.read(key))

    def create(self, key: str, data: bytes) -> bool:
        made = super().create(key, data)
        if made:
            self.ever[key] = bytes(data)
        return made

    def files(self) -> dict[str, bytes]:
        """What it holds now."""
        return {key: bytes(self.read(key)) for key in self.list("")}


@dataclass(kw_only=True)
class World:
    """Everything outside of drivers. word: begins the names of attempts; it tells the two parts apart."""

    word: str
    store: Recording = field(default_factory=Recording)
    disk: MemoryFolder = field(default_factory=MemoryFolder)
    clock: ManualClock = field(default_factory=lambda: ManualClock(program.BEGIN_MS))
    feeds: program.Feeds = field(default_factory=program.Feeds)
    shown: dict[str, Recorder] = field(default_factory=dict)
    batches: int = 0
    bench: Harness = field(init=False)

    def harness(self, *, changed: bool) -> Harness:
        """A bench on this store. changed: with the program text of after the changes."""
        self.bench = Harness(
            program.flows(self.feeds, changed=changed),
            store=self.store,
            settings=program.SETTINGS,
            clock=self.clock,
            names=map(f"{self.word}{{}}".format, count()),
            writer=self._writer,
        )
        return self.bench

    def _writer(self, sink: Any) -> SinkWriter:
        outlet, name = sink.sink.outlet, sink.sink.name
        if not isinstance(outlet, FileOutlet):
            return self.shown.setdefault(name, Recorder(durable=name in program.DURABLE))
        return FileWriter(
            root=outlet.path,
            owner=f"golden.{name}",
            token=f"token-{self.word}",
            folder=self.disk,
            write=self.disk.write,
            ledger=self._ledger,
        )

    def _ledger(self) -> Ledger:
        state = self.bench.journal_state()
        return Ledger(
            opening=state.driver.id if state.driver else "",
            epoch=state.epoch,
            openings=state.drivers,
            committed=state.last_committed or 0,
            digests=state.digests,
            remove_later=False,
        )

    def push(self) -> None:
        """The next batch of every source, and the time that it takes."""
        self.feeds.push(self.batches)
        self.batches += 1
        self.clock.advance(1_000)

    def feed(self, process: Process, batches: int) -> None:
        """Batches, each read and done with before the next comes."""
        for _ in range(batches):
            self.push()
            process.run()


@contextmanager
def openings(number: int) -> Iterator[None]:
    """Ids of the drivers that open the directory meanwhile, and the version that wrote the golden files."""
    before = {name: getattr(harness, name) for name in ("_IDS", "__version__")}
    vars(harness).update({"_IDS": count(number), "__version__": "golden"})
    try:
        yield
    finally:
        vars(harness).update(before)


@contextmanager
def facts_of_then() -> Iterator[None]:
    """What stored state means beyond its columns, in no more words than the golden journal has of it."""

    def lasting(dataflow: Dataflow, logics: Any) -> dict[str, dict[str, Any]]:
        told = restarting.lasting(dataflow, logics)
        for name, facts in told.items():
            facts.pop("columns")
            facts.pop("types", None)
            facts.pop("ends_ms", None)
            spec = getattr(dataflow.by_name[name], "spec", None)
            if isinstance(spec, DeduplicateSpec) and spec.within_us is not None:
                facts["fixed"] = str(spec.within_us)
        return told

    span_of = runs.Span.of

    def of(can: Any, rows: Any) -> runs.Span:
        """Sessions waited for their end itself, in which a row at the end had no place."""
        span = span_of(can, rows)
        if not isinstance(can.logic, SessionLogic) or span.due is None:
            return span
        return replace(span, due=(span.due[0] - 1, span.due[1] - 1))

    with (
        mock.patch.object(runs.Span, "of", of),
        mock.patch.object(versions, "lasting", lasting),
        mock.patch.object(versions, "state_of", return_value={}),
    ):
        yield


def begin() -> World:
    """A driver that ends as it should, and one that dies in the middle."""
    world = World(word="one-")
    with openings(100):
        process = world.harness(changed=False).start()
        world.feed(process, 3)
        program.first_changes(process)
        world.feed(process, 2)
        program.change_of_logic(process)
        world.feed(process, 1)
        program.new_program(process, world.feeds)
        world.feed(process, 2)
        process.sweep()
        process.stop()
        process = world.harness(changed=True).start()
        program.unfinished_changes(process)
        for _ in range(4):
            world.push()
        _die(process)
    return world


def _die(process: Process) -> None:
    for _ in range(STEPS_BEFORE_DEATH):
        state = process.journal.state
        moving = [record for record in state.coordination.open if record.taken and record.left]
        if len(state.open_intents) == 2 and moving:
            process.sweep()
            return
        process.step()
    msg = "the last driver never had two timesteps and a change under way"
    raise AssertionError(msg)


def go_on(world: World) -> None:
    """The driver that comes next: it takes up what was left, goes on, and changes more."""
    with openings(200):
        process = world.harness(changed=True).start()
        process.run()
        world.feed(process, 1)
        program.last_changes(process)
        world.feed(process, 2)
        process.sweep()
        world.clock.advance(120_000)
        process.run()
        world.feed(process, 1)


# Files --------------------------------------------------------------------------------------------------------


def save(world: World, directory: Path) -> None:
    """The state directory as files, what sinks have written, and where clock and input stand."""
    for key, data in world.store.files().items():
        path = directory / "state" / key
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)
    sinks = {
        "directories": sorted(world.disk.directories),
        "files": {path: _text(rows) for path, rows in sorted(world.disk.files.items())},
    }
    outside = {"clock_ms": world.clock(), "batches": world.batches, "sinks": sinks}
    (directory / "outside.json").write_text(json.dumps(outside, indent=1) + "\n")


def load(directory: Path) -> World:
    """The world that `save` wrote."""
    outside = json.loads((directory / "outside.json").read_text())
    root = directory / "state"
    paths = sorted(path for path in root.rglob("*") if path.is_file())
    store = Recording({path.relative_to(root).as_posix(): path.read_bytes() for path in paths})
    world = World(word="two-", store=store, clock=ManualClock(outside["clock_ms"]))
    world.disk.directories = set(outside["sinks"]["directories"])
    world.disk.files = {path: _rows(text) for path, text in outside["sinks"]["files"].items()}
    for batch in range(outside["batches"]):
        world.feeds.push(batch)
    world.batches = outside["batches"]
    return world


def _text(rows: pa.Table) -> str:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, rows.schema) as writer:
        writer.write_table(rows)
    return base64.b64encode(zlib.compress(sink.getvalue())).decode()


def _rows(text: str) -> pa.Table:
    return pa.ipc.open_stream(zlib.decompress(base64.b64decode(text))).read_all()


# What came of it ----------------------------------------------------------------------------------------------


def results(world: World) -> dict[str, Any]:
    """Everything that `go_on` left, by the name of the file that it is compared with."""
    ever, kept = world.store.ever, world.store.files()
    journal = {key: data for key, data in ever.items() if key.startswith(JOURNAL)}
    others = {key: data for key, data in ever.items() if key not in journal}
    return {
        "journal.txt": "".join(f"{key} {data.decode()}\n" for key, data in sorted(journal.items())),
        "files.json": _lines({key: digest(data) for key, data in others.items()}),
        "snapshots.json": _lines(
            {key: data.decode() for key, data in others.items() if key.startswith(SNAPSHOTS)}
        ),
        "kept.txt": "".join(f"{key}\n" for key in sorted(kept)),
        "sinks.json": _lines(_sinks(world)),
        "state.json": _lines(
            {
                name: rows_of(world.bench.state_table(name))
                for name in world.bench.journal_state().manifests
            }
        ),
    }


def digest(data: bytes) -> str:
    """Of a file."""
    return hashlib.sha256(data).hexdigest()


def rows_of(table: pa.Table) -> list[list[Any]]:
    """Rows as JSON, floats to the last digit."""
    return [[_plain(value) for value in row.values()] for row in table.to_pylist()]


def _plain(value: Any) -> Any:
    return value if value is None or isinstance(value, bool | int | float | str) else str(value)


def _sinks(world: World) -> dict[str, Any]:
    """Rows of every sink, by timestep or file."""
    shown = {
        f"{name} {timestep}": rows_of(rows)
        for name, recorder in world.shown.items()
        for timestep, rows in recorder.published.items()
    }
    return shown | {path: rows_of(rows) for path, rows in world.disk.files.items()}


def _lines(values: Mapping[str, Any]) -> str:
    """A JSON object with one line per name: its differences can be read."""
    lines = ",\n".join(
        f"{json.dumps(name)}: {json.dumps(value)}" for name, value in sorted(values.items())
    )
    return f"{{\n{lines}\n}}\n"
