"""Each text file of this directory is one story: commands, and everything they print.

    # A remark.
    >> name.py          what follows, up to a line with <<, is written to a file
    <<
    $ rechannel status state        a command; what follows is its reaction
    what it prints on standard output
    ! what it prints on standard error
    (exit 0)

Two more commands do what accidents do: `flip PATTERN` flips a bit in the middle of the first file
that matches, `remove PATTERN` removes it. `<pid>`, `<host>`, `<version>` and `<here>` stand for what
they say, `<...>` for anything on its line, and a line `...` for any number of lines. Spaces at the
ends of lines and repeated spaces do not count.
"""

from __future__ import annotations

import os
import re
import shlex
import socket
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

import rechannel
from rechannel.cli import execute

STORIES = sorted(Path(__file__).parent.glob("*.txt"))


@dataclass(frozen=True)
class Step:
    """A command with its reaction, or a file with its text."""

    head: str
    lines: list[str]
    number: int


def steps(text: str) -> Iterator[Step]:
    head, lines, number = "", [], 0
    for at, line in enumerate(text.splitlines(), start=1):
        inside_file = head.startswith(">> ")
        if (line.startswith("$ ") and not inside_file) or line.startswith(">> "):
            if head:
                yield Step(head, lines, number)
            head, lines, number = line, [], at
        elif inside_file and line == "<<":
            yield Step(head, lines, number)
            head = ""
        elif head and (inside_file or not line.startswith("#")):
            lines.append(line)
    if head:
        yield Step(head, lines, number)


def reaction(command: str, capfd) -> list[str]:
    """What a command prints, and how it ends."""
    program, *arguments = shlex.split(command)
    if program == "flip":
        path = first(arguments[0])
        data = bytearray(path.read_bytes())
        data[len(data) // 2] ^= 4
        path.write_bytes(data)
        return []
    if program == "remove":
        first(arguments[0]).unlink()
        return []
    assert program == "rechannel", f"no such command: {program}"
    capfd.readouterr()
    code = execute(arguments)
    printed = capfd.readouterr()
    errors = [f"! {line}" for line in printed.err.splitlines()]
    return [*printed.out.splitlines(), *errors, f"(exit {code})"]


def first(pattern: str) -> Path:
    return min(path for path in Path().glob(pattern) if path.is_file())


def tidy(lines: list[str]) -> list[str]:
    """Lines without what nobody sees; empty ones at the end do not count."""
    tidied = [re.sub(r" +", " ", line).rstrip() for line in lines]
    while tidied and not tidied[-1]:
        tidied.pop()
    return tidied


def matches(expected: list[str], found: list[str]) -> bool:
    """Whether the lines are those that were told."""
    known = {
        "<pid>": str(os.getpid()),
        "<host>": socket.gethostname(),
        "<version>": rechannel.__version__,
        "<here>": str(Path.cwd()),
    }
    patterns = []
    for told in expected:
        line = told
        for word, value in known.items():
            line = line.replace(word, value)
        parts = map(re.escape, line.split("<...>"))
        patterns.append(r"(.*\n)*" if line == "..." else ".*".join(parts) + r"\n")
    return re.fullmatch("".join(patterns), "".join(f"{line}\n" for line in found)) is not None


@pytest.mark.parametrize("story", STORIES, ids=lambda path: path.stem)
def test_commands_react_as_told(story, tmp_path, monkeypatch, capfd):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    monkeypatch.setenv("PYTHONPATH", os.environ.get("PYTHONPATH", ""))
    monkeypatch.setenv("PYSPARK_PYTHON", os.environ.get("PYSPARK_PYTHON", sys.executable))
    monkeypatch.delenv("COLUMNS", raising=False)
    for step in steps(story.read_text(encoding="utf-8")):
        if step.head.startswith(">> "):
            Path(step.head[3:]).write_text("\n".join(step.lines) + "\n", encoding="utf-8")
            continue
        found, expected = tidy(reaction(step.head[2:], capfd)), tidy(step.lines)
        where = f"{story.name}, line {step.number}: {step.head}"
        shown = "\n".join([where, *found, "", "but this was told:", *expected])
        assert matches(expected, found), shown


def test_there_are_stories():
    assert len(STORIES) >= 4
