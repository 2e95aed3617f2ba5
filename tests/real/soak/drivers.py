"""The drivers of a soak: one that runs, one that stands by, and the mailbox through which the first is asked."""

from __future__ import annotations

import json
import signal
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tests.real.soak.driver import STATUS, drive
from tests.spark.children import Child

PATIENCE_S = 480.0
FENCED = ("FencedError", "StateInUseError")


class Drivers:
    """The driver that runs, and the one that stands by."""

    def __init__(self, place: Path, given: dict[str, Any]) -> None:
        """given: what `driver.drive` needs, beside the folders."""
        self._place, self._box = place, place / "mailbox"
        self._box.mkdir()
        self._given = {**given, "place": str(place), "mailbox": str(self._box)}
        self._children: dict[int, Child] = {}
        self._letters = 0
        self.happened = Counter[str]()
        self.active = 0

    def start(self) -> None:
        """Start a driver, then the one that stands by; return when the first has committed."""
        self._spawn()
        self._await_one()
        self._spawn()

    @property
    def processes(self) -> list[int]:
        """Id of the process of the one that runs; none while there is none."""
        child = self._children.get(self.active)
        return [child.pid] if child is not None else []

    @property
    def status(self) -> dict[str, Any]:
        """What the one that runs told last."""
        path = self._place / STATUS
        found: dict[str, Any] = json.loads(path.read_text()) if path.exists() else {}
        return found

    def watch(self) -> None:
        """Raise RuntimeError if a driver has ended of itself, but for one that another has replaced."""
        for number, child in [*self._children.items()]:
            if child.running:
                continue
            said = child.errors()
            if not any(name in said for name in FENCED):
                raise RuntimeError(f"driver {number} has ended of itself:\n{said}")
            self.happened["fenced"] += 1
            del self._children[number]
            child.close()
            if number == self.active:
                self._await_one()
            self._spawn()

    def kill(self) -> None:
        """Kill the one that runs; return when the one that stood by has committed, and another stands by."""
        number, child = self.active, self._children.pop(self.active)
        before = self.status.get("timestep") or 0
        if child.kill() != -signal.SIGKILL:
            raise RuntimeError(f"driver {number} had ended before it was killed:\n{child.errors()}")
        child.close()
        self.happened["killed"] += 1
        self._await_one(before)
        self._spawn()

    def ask(self, what: str, seed: int = 0, patience_s: float = PATIENCE_S) -> dict[str, Any]:
        """Ask the driver for something, and return its answer."""
        self._letters += 1
        letter = self._box / f"{self._letters:06d}.ask.json"
        hidden = self._box / f".{self._letters:06d}"
        hidden.write_text(json.dumps({"do": what, "seed": seed}))
        hidden.rename(letter)
        answer = self._box / f"{self._letters:06d}.answer.json"
        self._until(answer.exists, f"an answer to {what!r}", patience_s)
        found: dict[str, Any] = json.loads(answer.read_text())
        return found

    def stop(self) -> int:
        """Have the driver end orderly, and kill the one that stands by. Returns the last timestep."""
        for number in self._children.keys() - {self.active}:
            child = self._children.pop(number)
            child.kill()
            child.close()
        self.ask("stop")
        return int(self._children[self.active].result(PATIENCE_S)["timestep"])

    def close(self) -> None:
        """End all."""
        for child in self._children.values():
            child.close()

    def _spawn(self) -> None:
        number = max(self._children, default=self.active) + 1
        arguments = {"given": self._given, "number": number}
        self._children[number] = Child(self._place / f"driver-{number}.log", drive, arguments)

    def _await_one(self, before: int = 0) -> None:
        """Wait until a driver has committed more than `before`."""

        def runs() -> bool:
            now = self.status
            return now.get("number") in self._children and (now.get("timestep") or 0) > before

        self._until(runs, "a driver runs and commits", 2 * PATIENCE_S)
        self.active = int(self.status["number"])

    def _until(self, reached: Callable[[], bool], what: str, patience_s: float) -> None:
        deadline = time.monotonic() + patience_s
        while not reached():
            if time.monotonic() > deadline:
                raise RuntimeError(f"in vain for {patience_s:g} s: {what}; {self._standing()}")
            for number, child in self._children.items():
                if not child.running and not any(name in child.errors() for name in FENCED):
                    raise RuntimeError(f"driver {number} has ended of itself:\n{child.errors()}")
            time.sleep(0.1)

    def _standing(self) -> str:
        for child in self._children.values():
            if child.running:
                child.send(signal.SIGUSR1)  # it writes down what its threads are at
        return f"the last status was {json.dumps(self.status)}; see {self._place}/driver-*.log"
