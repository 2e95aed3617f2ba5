"""Text files of commands, each followed by everything that it leads to.

    # A remark.
    > command word=value
    the reaction, line by line

A file is checked by running its commands and comparing; `pytest --rewrite` writes what was found into it, for a
reader to judge by its diff.
"""

from __future__ import annotations

import shlex
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest

React = Callable[[str, list[str], dict[str, str]], list[str]]
"""Of a command's name, its words and its named values: the lines of its reaction."""


@dataclass(frozen=True)
class Block:
    """Remarks and empty lines, or a command with its reaction."""

    head: str
    lines: tuple[str, ...]
    number: int

    @property
    def text(self) -> str:
        """As it stands in the file."""
        return "\n".join((self.head, *self.lines))


def blocks(text: str) -> list[Block]:
    """Cut a file into blocks."""
    out: list[Block] = []
    for number, line in enumerate(text.splitlines(), start=1):
        if not line or line.startswith(("#", "> ")):
            out.append(Block(line, (), number))
        else:
            last = out.pop()
            out.append(Block(last.head, (*last.lines, line), last.number))
    return out


def check(path: Path, react: React, *, rewrite: bool) -> None:
    """Run a file's commands; fail where a reaction differs, or write down what it is."""
    found: list[Block] = []
    for block in blocks(path.read_text(encoding="utf-8")):
        if not block.head.startswith("> "):
            assert not block.lines, f"{path.name}, line {block.number}: a reaction to nothing"
            found.append(block)
            continue
        name, *rest = shlex.split(block.head[2:])
        named = dict(word.split("=", 1) for word in rest if "=" in word)
        lines = tuple(react(name, [word for word in rest if "=" not in word], named))
        if not rewrite and lines != block.lines:
            shown = "\n".join([f"{path.name}, line {block.number}: {block.head}", *lines])
            pytest.fail(f"{shown}\n\nbut this was expected:\n" + "\n".join(block.lines))
        found.append(Block(block.head, lines, block.number))
    if rewrite:
        path.write_text("\n".join(block.text for block in found) + "\n", encoding="utf-8")
