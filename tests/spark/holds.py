"""Functions of a dataflow that mark which attempts of a task ran, and hold some of them until a test lets them go.

A place is a directory that tests and tasks share. Files in it are all that they say to each other: `armed` (tasks
hold from now on), `go` (they go on), and one mark per call.
"""

import os
import uuid
from collections.abc import Callable
from pathlib import Path
from typing import Any

from pyspark import TaskContext

from tests.spark.programs import until, with_branch


class Marks:
    """The directory."""

    def __init__(self, place: Path | str) -> None:
        self.place = Path(place)

    def put(self, kind: str, **facts: Any) -> None:
        """Leave a mark, whole or not at all."""
        self.place.mkdir(parents=True, exist_ok=True)
        words = [kind, *(f"{name}={value}" for name, value in facts.items()), uuid.uuid4().hex[:8]]
        (self.place / ",".join(words)).touch()

    def of(self, kind: str) -> list[dict[str, str]]:
        """The marks of a kind, each as a dict of text."""
        names = [path.name.split(",") for path in self.place.glob(f"{kind},*")]
        return [dict(word.split("=") for word in words[1:-1]) for words in sorted(names)]

    def say(self, word: str) -> None:
        """Tell the tasks: `armed`, `go`."""
        self.place.mkdir(parents=True, exist_ok=True)
        (self.place / word).touch()

    def said(self, word: str) -> bool:
        """Whether it was told."""
        return (self.place / word).exists()


def me() -> dict[str, Any]:
    """Which attempt of which task this is."""
    context = TaskContext.get()
    assert context is not None
    return {
        "pid": os.getpid(),
        "stage": context.stageId(),
        "partition": context.partitionId(),
        "attempt": context.attemptNumber(),
        "task": context.taskAttemptId(),
    }


class Marking:
    """A front function that marks which rows it saw: once more means that they were made again."""

    def __init__(self, place: Path | str) -> None:
        self.marks = Marks(place)

    def __call__(self, batch: Any) -> Any:
        self.marks.put("front", first=batch.column("number")[0].as_py(), task=me()["task"])
        return batch


class Holding:
    """A function that holds its task from `armed` until `go`, and else does what another one does.

    Behind an operator, the task has written its segment by then and has sent nothing; in a front it has done nothing.
    """

    def __init__(self, place: Path | str, function: Callable[[Any], Any] = with_branch) -> None:
        self.marks = Marks(place)
        self.function = function

    def __call__(self, batch: Any) -> Any:
        if self.holds():
            self.marks.put("held", **me())
            until(lambda: self.marks.said("go"), "a test lets this task go")
            self.marks.put("went", **me())
        return self.function(batch)

    def holds(self) -> bool:
        """Whether this attempt is held."""
        return self.marks.said("armed") and not self.marks.said("go")


class HoldingFirst(Holding):
    """Holds only first attempts."""

    def holds(self) -> bool:
        return super().holds() and me()["attempt"] == 0
