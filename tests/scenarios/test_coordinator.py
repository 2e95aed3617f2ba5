"""Each file of `coordinator/` is a story of reconfigurations: what is asked for, and every event that follows.

> new drained=no size=10                    a stream of `counts` and `sums`: 8 bins on 2 tasks each
> ask rescale counts 3                      a change, as in `rc.changes`; it is prepared at once unless
                                            prepared=no; at=5, at_ms=2000, strategy=fluid:bins=2, supersede=yes
> prepare r1                                its preparation comes back
> border                                    how the next timestep would begin; nothing happens
> begin                                     a timestep begins
> commit 1                                  a timestep is committed; without a number, the latest
> step 3                                    timesteps begin and are committed, one after the other
> abort r1
> resume                                    another driver takes over
> set drained=yes idle=no time_ms=2000      what the coordinator finds
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from rechannel import changes, strategies
from rechannel.errors import RechannelError
from rechannel.reconfigure.events import (
    Event,
    Finished,
    Planned,
    Requested,
    Resumed,
    Reversed,
    Stepped,
)
from tests.scenarios.datadriven import check
from tests.support.changing import Paper, program

STORIES = sorted((Path(__file__).parent / "coordinator").glob("*.txt"))
WORDS = {"yes": True, "no": False}


@dataclass
class Told(Paper):
    """A stream on paper that notes what happens."""

    lines: list[str] = field(default_factory=list)

    def fold(self, events: Sequence[Event]) -> None:
        for event in events:
            super().fold([event])
            self.lines.append(f"{event.id} {event.kind}{self._more(event)}")

    def _more(self, event: Event) -> str:
        if isinstance(event, Requested):
            record = self.state.find(event.id)
            gone = f" in place of {', '.join(event.supersedes)}" if event.supersedes else ""
            return f": {record.change}{gone}"
        if isinstance(event, Planned | Reversed):
            steps = self.state.find(event.id).left
            return f": {len(steps)} steps of {' '.join(str(len(s.moves)) for s in steps)} moves"
        if isinstance(event, Stepped):
            only = "" if event.moves is None else f", only {event.moves} moves of it"
            return f" at timestep {event.timestep}{only}"
        if isinstance(event, Resumed):
            return f" from timestep {event.timestep}"
        if isinstance(event, Finished):
            return f": {event.outcome}{f' ({event.reason})' if event.reason else ''}"
        return ""

    def standing(self) -> str:
        """How the stream stands, in a line."""
        owners = {name: "".join(map(str, self.owners(name))) for name in ("counts", "sums")}
        tasks = " ".join(f"{name} {bins}" for name, bins in owners.items())
        phases = ", ".join(f"{id_} {phase}" for id_, phase in self.phases().items())
        return f"= timestep {self.timestep}; {tasks}{f'; {phases}' if phases else ''}"


def value(word: str) -> Any:
    """A word of a command as Python has it: 3, [0, 1], yes, or itself."""
    if "," in word:
        return [int(part) for part in word.split(",")]
    if word.lstrip("-").isdigit():
        return int(word)
    return WORDS.get(word, word)


class Story:
    """One stream, and the commands of a file."""

    def __init__(self) -> None:
        self.paper = Told()

    def react(self, name: str, words: list[str], named: dict[str, str]) -> list[str]:
        try:
            getattr(self, f"do_{name}")(*words, **named)
        except RechannelError as error:
            self.paper.lines.append(f"{type(error).__name__}: {error}")
        lines, self.paper.lines = self.paper.lines, []
        return [*lines, self.paper.standing()] if name not in {"new", "set"} else []

    def do_new(self, **named: str) -> None:
        self.paper = Told()
        self.do_set(**named)

    def do_set(self, **named: str) -> None:
        for name, word in named.items():
            setattr(self.paper, name, value(word))

    def do_ask(self, kind: str, *words: str, strategy: str = "", **named: str) -> None:
        given = [value(word) for word in words]
        change = program(*given) if kind == "program" else getattr(changes, kind)(*given)
        name, _, options = strategy.partition(":")
        chosen = dict(option.split("=") for option in options.split(",") if option)
        how = {word: int(number) for word, number in chosen.items()}
        gently = getattr(strategies, name)(**how) if name else None
        more = {"ready" if n == "prepared" else n: value(word) for n, word in named.items()}
        self.paper.ask(change, gently, **more)

    def do_prepare(self, *ids: str) -> None:
        self.paper.prepare(*ids)

    def do_border(self) -> None:
        decision = self.paper.decide()
        made = [f"{event.id} would be {event.kind}" for event in decision.events]
        made += [f"{step.id} would step" for step in decision.steps]
        made += ["no timestep may begin before those in flight are done"] * decision.hold
        self.paper.lines += made or ["nothing is due"]

    def do_begin(self) -> None:
        before = self.paper.timestep
        self.paper.begin()
        if self.paper.timestep == before:
            self.paper.lines.append("no timestep begins")

    def do_commit(self, timestep: str = "") -> None:
        self.paper.commit(int(timestep) if timestep else None)

    def do_step(self, timesteps: str = "1") -> None:
        for _ in range(int(timesteps)):
            self.paper.step()
            self.paper.lines.append(self.paper.standing())
        self.paper.lines.pop()

    def do_abort(self, id_: str) -> None:
        self.paper.abort(id_)

    def do_resume(self) -> None:
        self.paper.resume()


@pytest.mark.parametrize("story", STORIES, ids=lambda path: path.stem)
def test_the_coordinator_reacts_as_told(story: Path, pytestconfig: pytest.Config) -> None:
    check(story, Story().react, rewrite=bool(pytestconfig.getoption("--rewrite")))


def test_there_are_stories() -> None:
    assert len(STORIES) >= 8
