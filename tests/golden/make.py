"""Write the golden files anew: only from the commit that they stand for.

    git worktree add --detach /tmp/old 72a2c4e
    git show <the commit that added this directory>:tests/golden/...   # program, story and samples of that time
    PYTHONPATH=/tmp/old/src:. python -m tests.golden.make

They say what the code of that commit made of a state directory. Files that later code writes prove nothing about it, so
this refuses any other code. A later format gets a golden directory of its own, beside this one.
"""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import rechannel
from tests.golden import samples, story

COMMIT = "72a2c4e"
HERE = Path(__file__).parent


def main() -> None:
    """Begin, save, go on, and write down what came of it."""
    source = Path(rechannel.__file__).parent
    if _git(source, "rev-parse", "--short=7", "HEAD") != COMMIT or _git(
        source, "status", "--porcelain", "."
    ):
        sys.exit(f"{source} is not the code of commit {COMMIT}: see the top of {__file__}")
    for name in ("begun", "expected"):
        shutil.rmtree(HERE / name, ignore_errors=True)
        (HERE / name).mkdir()
    with _as_a_job():
        story.save(story.begin(), HERE / "begun")
        world = story.load(HERE / "begun")
        story.go_on(world)
    for name, text in story.results(world).items():
        (HERE / "expected" / name).write_text(text)
    _write("made-with.json", {"commit": COMMIT, **story.made_with()})
    _write("digests.json", samples.samples())


@contextmanager
def _as_a_job() -> Iterator[None]:
    """Let the test kit of that commit open a directory as a job does: it left out the owner and the fingerprint."""
    # Where these are in that commit.
    from rechannel.assembly import OWNER  # noqa: I001
    from rechannel.engine.entries import Note, Opened
    from rechannel.engine.identity import Identity
    from rechannel.engine.journal import Journal
    from rechannel.testing import harness

    given: dict[str, Any] = {}

    def opened_as(store: Any, **settings: Any) -> Any:
        given["journal"], state = Journal.open(store, **settings)
        return given["journal"], state

    def opened(**fields: Any) -> Opened:
        more = {
            "time_ms": int(given["clock"]()),
            "fingerprint": str(sorted(given["identity"].operators.items())),
            "version": "golden",
            "id": f"id{next(harness._IDS)}",
        }
        return Opened(**{**fields, **more})

    class JobIdentity(Identity):
        def __post_init__(self) -> None:
            super().__post_init__()
            given["identity"] = self

        def claim(self, store: Any, *, changed: bool = False) -> None:
            super().claim(store, changed=changed)
            if OWNER not in given["journal"].state.notes:
                given["journal"].append(Note(kind=OWNER, body="owner"))

    def clocked(*arguments: Any, **named: Any) -> Any:
        given["clock"] = named["clock"]
        return made(*arguments, **named)

    made = story.Harness
    story.Harness = clocked
    harness._IDS = None
    harness.Journal = SimpleNamespace(open=opened_as)
    harness.Opened, harness.Identity = opened, JobIdentity
    yield


def _write(name: str, value: object) -> None:
    (HERE / name).write_text(json.dumps(value, indent=1, sort_keys=True) + "\n")


def _git(where: Path, *arguments: str) -> str:
    command = ("git", "-C", str(where), *arguments)
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()


if __name__ == "__main__":
    main()
