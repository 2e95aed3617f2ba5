"""Each file of `loop/` is a story of the loop: what happens, and every command that it gives.

> new in_flight=2 interval=0 replay=0     a loop over in -> first -> second, one task each
> offer 3                                 the source has three more batches
> set room=no                             what the outside answers from now on
> fail sources cluster                    looks at the sources (or sinks, program) fail; `mend sources`
> decide in_flight=3                      what the coordinator decides next
> at 1500                                 the time, in milliseconds
> turn                                    a turn of the driver
> done in 1                               a unit came back
> broken first 1 cluster                  a unit failed
> rest                                    what a turn in which nothing happened ends with
"""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.scenarios.datadriven import check
from tests.support.loops import PaperLoop

STORIES = sorted((Path(__file__).parent / "loop").glob("*.txt"))
WORDS = {"yes": True, "no": False}
EVENTS = {"turn", "done", "broken", "rest"}
"""Commands that the loop hears of; the others change what it finds outside."""


class Story:
    """One loop, and the commands of a file."""

    def __init__(self) -> None:
        self.loop = PaperLoop.of()

    def react(self, name: str, words: list[str], named: dict[str, str]) -> list[str]:
        getattr(self, f"do_{name}")(*words, **named)
        lines, self.loop.lines = self.loop.lines, []
        return [*lines, self.loop.standing()] if name in EVENTS else []

    def do_new(self, **named: str) -> None:
        self.loop = PaperLoop.of(**{name: int(value) for name, value in named.items()})

    def do_offer(self, batches: str) -> None:
        self.loop.offers += int(batches)

    def do_set(self, **named: str) -> None:
        for name, value in named.items():
            setattr(self.loop, name, WORDS.get(value, value))

    def do_ask(self, asked: str) -> None:
        self.loop.asked = int(asked)

    def do_fail(self, what: str, kind: str) -> None:
        self.loop.failing[what] = kind

    def do_mend(self, what: str) -> None:
        del self.loop.failing[what]

    def do_decide(self, **named: str) -> None:
        self.loop.change = {name: int(value) for name, value in named.items()}

    def do_at(self, wall_ms: str) -> None:
        self.loop.wall_ms = float(wall_ms)

    def do_turn(self) -> None:
        self.loop.turn()

    def do_done(self, operator: str, timestep: str) -> None:
        self.loop.done(operator, int(timestep))

    def do_broken(self, operator: str, timestep: str, kind: str) -> None:
        self.loop.failed(operator, int(timestep), kind)

    def do_rest(self, published: str = "yes", fetching: str = "no") -> None:
        self.loop.rest(published=WORDS[published], fetching=WORDS[fetching])


@pytest.mark.parametrize("story", STORIES, ids=lambda path: path.stem)
def test_the_loop_reacts_as_told(story: Path, pytestconfig: pytest.Config) -> None:
    check(story, Story().react, rewrite=bool(pytestconfig.getoption("--rewrite")))


def test_there_are_stories() -> None:
    assert len(STORIES) >= 6
