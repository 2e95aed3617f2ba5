"""Two processes on one state directory, paused, killed and taken over at random: nothing is lost or doubled."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections import Counter, defaultdict
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from random import Random
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

SMOKE_SECONDS = 20
SOAK_SECONDS = 30 * 60
PATIENCE = 600
ROOT = Path(__file__).parents[2]
ROWS, KEYS = 20, 40
TURN_SECONDS = 0.6
"""The parent does something about so often."""


class Pair:
    """Drivers that come and go, at most two at a time, and what became of them."""

    def __init__(self, folder: Path, seed: int) -> None:
        """Nobody runs yet."""
        self.folder, self.rng, self.seed = folder, Random(seed), seed
        self.running: list[subprocess.Popen[str]] = []
        self.happened: Counter[str] = Counter()
        self.started = 0
        self.logs: dict[int, Path] = {}

    def spawn(self, what: str = "on") -> subprocess.Popen[str]:
        """One more driver."""
        self.started += 1
        written = self.folder / f"driver{self.started}.txt"
        with written.open("w") as log:
            process = subprocess.Popen(
                [
                    sys.executable,
                    *("-m", "tests.soak.driver", str(self.folder)),
                    *(str(self.seed * 1000 + self.started), what),
                ],
                stdout=subprocess.PIPE,
                stderr=log,
                cwd=ROOT,
                env={**os.environ, "PYTHONPATH": f"{ROOT / 'src'}{os.pathsep}{ROOT}"},
                text=True,
            )
        self.logs[process.pid] = written
        return process

    def turn(self) -> None:
        """Something happens to one of them."""
        for process in [p for p in self.running if p.poll() is not None]:
            self.running.remove(process)
            self.heard(process)
        if not self.running or (len(self.running) < 2 and self.rng.random() < 0.4):
            self.running.append(self.spawn())
        time.sleep(self.rng.random() * 2 * TURN_SECONDS)
        process, chance = self.rng.choice(self.running), self.rng.random()
        if chance < 0.25:
            self.pause(process)
        elif chance < 0.4 and process.poll() is None:
            process.kill()
            self.happened["killed"] += 1

    def pause(self, process: subprocess.Popen[str]) -> None:
        """One sleeps, and finds another one in its place, perhaps."""
        process.send_signal(signal.SIGSTOP)
        self.happened["paused"] += 1
        time.sleep(self.rng.random() * 2)
        if len(self.running) < 2 and self.rng.random() < 0.7:
            self.running.append(self.spawn())
            time.sleep(2 + self.rng.random() * 2)
        process.send_signal(signal.SIGCONT)

    def heard(self, process: subprocess.Popen[str]) -> None:
        """What one told of its life."""
        text, _ = process.communicate(timeout=PATIENCE)
        for line in text.splitlines():
            facts: dict[str, Any] = json.loads(line)
            if facts.pop("started", False):
                self.happened["taken over" if facts.pop("takeover") else "started"] += 1
            end = facts.pop("end", None)
            if end is not None:
                self.happened[f"end {end}"] += 1
            self.happened.update(facts)
        if process.returncode > 0:
            said = self.logs[process.pid].read_text()[-2000:]
            self.happened[f"end {process.returncode}: {said}"] += 1

    def end(self) -> None:
        """All are killed."""
        for process in self.running:
            process.send_signal(signal.SIGCONT)
            process.kill()
            self.heard(process)
        self.running.clear()

    def finish(self) -> None:
        """A last driver works off what is left, undisturbed."""
        process = self.spawn("finish")
        self.heard(process)
        assert self.happened["end done"] == 1, self.happened


@contextmanager
def two_drivers(folder: Path, seed: int) -> Iterator[Pair]:
    pair = Pair(folder, seed)
    try:
        yield pair
    finally:
        pair.end()


class Input:
    """Files of rows, and what they add up to."""

    def __init__(self, folder: Path, rng: Random) -> None:
        """No file yet."""
        self.folder, self.rng = folder, rng
        self.rows: list[tuple[str, int]] = []
        self.files = 0
        folder.mkdir()

    def write(self) -> None:
        """One more file, which appears at once, later than all others."""
        first = self.files * ROWS
        rows = [(f"k{self.rng.randrange(KEYS)}", first + i) for i in range(ROWS)]
        hidden = self.folder / f".{self.files}"
        keys, values = zip(*rows, strict=True)
        pq.write_table(pa.table({"k": keys, "v": values}), hidden)
        hidden.rename(self.folder / f"f{self.files:06d}.parquet")
        self.files += 1
        self.rows += rows

    def totals(self) -> dict[str, tuple[int, int, int]]:
        """Number, sum and latest of every key."""
        held: dict[str, tuple[int, int, int]] = {}
        for key, value in self.rows:
            n, total, _ = held.get(key, (0, 0, 0))
            held[key] = (n + 1, total + value, value)
        return held


def timesteps(folder: Path) -> list[Path]:
    return sorted(folder.glob("timestep=*"))


def rows_in(folder: Path) -> list[dict[str, Any]]:
    """What a reader sees of a timestep."""
    tables = [pq.ParquetFile(file).read().to_pylist() for file in folder.glob("*.parquet")]
    lines = [file.read_text().splitlines() for file in folder.glob("*.json")]
    return [row for rows in tables for row in rows] + [
        json.loads(x) for text in lines for x in text
    ]


def check(folder: Path, given: Input) -> None:
    """Every row is there once, in every sink."""
    copied = Counter(
        (row["k"], row["v"]) for step in timesteps(folder / "copied") for row in rows_in(step)
    )
    expected = Counter(given.rows)
    assert not (lost := expected - copied), f"lost: {sorted(lost)[:20]}"
    assert not (twice := copied - expected), f"twice: {sorted(twice)[:20]}"

    latest: dict[str, tuple[int, int, int]] = {}
    numbers: dict[str, list[int]] = defaultdict(list)
    for step in timesteps(folder / "keys"):
        rows = rows_in(step)
        assert len({row["k"] for row in rows}) == len(rows), f"a key twice in {step.name}"
        for row in rows:
            latest[row["k"]] = (row["n"], row["t"], row["latest"])
            numbers[row["k"]].append(row["n"])
    assert latest == given.totals()
    assert all(ns == sorted(set(ns)) for ns in numbers.values()), "a key's numbers go back"

    sizes = {row["n"]: row["c"] for step in timesteps(folder / "sizes") for row in rows_in(step)}
    assert sizes == Counter(n for ns in numbers.values() for n in ns)


def soak(folder: Path, seconds: float, seed: int) -> Counter[str]:
    given = Input(folder / "in", Random(seed))
    end = time.monotonic() + seconds
    with two_drivers(folder, seed) as pair:
        while time.monotonic() < end:
            for _ in range(given.rng.randrange(5)):
                given.write()
            pair.turn()
        pair.end()
        odd = [name for name in pair.happened if name.startswith("odd")]
        ends = {name for name in pair.happened if name.startswith("end ")}
        assert not odd, odd
        assert ends <= {"end FencedError", "end StateInUseError"}, ends
        pair.finish()
    check(folder, given)
    return pair.happened


@pytest.mark.slow
@pytest.mark.parametrize("seconds", [SMOKE_SECONDS, SOAK_SECONDS])
def test_two_drivers_that_are_paused_killed_and_taken_over_lose_and_double_nothing(
    seconds: int, tmp_path: Path
) -> None:
    happened = soak(tmp_path, seconds, seed=seconds)
    assert happened["paused"]
    assert happened["killed"]
    assert happened["taken over"]
    assert happened["asked"]
    assert happened["end FencedError"] or seconds == SMOKE_SECONDS
