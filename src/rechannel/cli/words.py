"""Advice in errors, from Python to the command line.

Errors are raised by code that does not know its caller, and say what to do in Python: `start(takeover=True)`. Commands
show the option instead: `--takeover`.
"""

from __future__ import annotations

import re
import shlex

FLAGS = (
    *("takeover", "revert", "mended", "replan", "upgrade", "remove_later_output"),
    "supersede",
    "accept_repeats_and_gaps",
)
"""Boolean arguments, with an option of the same name."""

LISTS = ("fresh", "without")
"""Arguments that are lists of names; their options may be repeated."""

_FLAG = re.compile(rf"\b({'|'.join(FLAGS)})=True\b")
_LIST = re.compile(rf"\b({'|'.join(LISTS)})=\[([^\]]*)\]")
_START = re.compile(r"\b(?:job\.)?start\((--[^()]*)\)")
_FREE_PORT = re.compile(r"\bport=0\b")


def in_options(text: str) -> str:
    """The text with options in place of arguments."""
    text = _FLAG.sub(lambda found: _option(found[1]), text)
    text = _LIST.sub(lambda found: _repeated(found[1], found[2]), text)
    text = _START.sub(lambda found: f"rechannel run FILE {found[1].replace(', ', ' ')}", text)
    text = text.replace("rc.control.install(..., name=)", "--name")
    return _FREE_PORT.sub("port 0", text)


def _option(name: str) -> str:
    return f"--{name.replace('_', '-')}"


def _repeated(name: str, names: str) -> str:
    each = [one.strip().strip("'\"") for one in names.split(",") if one.strip()]
    return " ".join(f"{_option(name)} {shlex.quote(one)}" for one in each)
