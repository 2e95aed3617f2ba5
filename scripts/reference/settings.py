"""The page of every setting, argument of a start, command and option."""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterator, Mapping
from textwrap import fill
from typing import Any

import typer

import rechannel as rc
from rechannel.cli.app import app
from rechannel.cli.remote.commands import UNNAMED, changes
from rechannel.state.merging import MergePolicy
from rechannel.testing.scaling import Steering
from scripts.reference.docstrings import WIDTH, arguments, fields, shown, summary
from scripts.reference.live import LIVE, NEXT_START

HEAD = """\
# Settings and commands

Every setting, every argument that says how a job runs, every command and option: with default,
unit, meaning, and whether a running job can change it. What operators, sources and sinks take is in
[every public name](names.md).

`python -m scripts.reference_pages` makes this page from the code.
"""

TABLES: Mapping[str, Any] = {
    "Settings": rc.Settings,
    "Patience": rc.Patience,
    "MergePolicy": MergePolicy,
    "Job": rc.Job.__init__,
    "Job.start": rc.Job.start,
    "Job.stand_by": rc.Job.stand_by,
    "session": rc.session,
    "RunningJob.serve": rc.RunningJob.serve,
    "RunningJob.stop": rc.RunningJob.stop,
    "RunningJob.reconfigure": rc.RunningJob.reconfigure,
    "RunningJob.deploy": rc.RunningJob.deploy,
    "at_most": rc.at_most,
    "control.install": rc.control.install,
    "testing.Harness": rc.testing.Harness.__init__,
    "testing.scaling.Steering": Steering,
}
"""What has settings, by its name in `rc`."""

HOMES = {
    "Job.start": "Job.start",
    "Job.stand_by": "Job.stand_by",
    "MergePolicy": "rechannel.state.merging.MergePolicy",
    "testing.scaling.Steering": "rechannel.testing.scaling.Steering",
}
"""How those are named that are not read from `rc`."""

UNITS = {
    **dict.fromkeys(("in_flight", "keep_versions", "publish_backlog", "timesteps"), "timesteps"),
    "tasks": "tasks",
    "bins": "bins",
    "snapshot_every": "commits",
    "replan_after": "drivers",
    "fan": "runs",
    "slice_rows": "rows",
    "rows": "rows",
    "min_rows": "rows",
    "port": "port",
    "percent": "percent",
    "failures": "callbacks",
    "timeout": "seconds",
    **dict.fromkeys(("activation", "most_changes"), "times"),
}
"""Units that names do not say."""

SUFFIXES = {"ms": "milliseconds", "s": "seconds", "seconds": "seconds", "bytes": "bytes"}
"""Units by the last word of a name."""


def page() -> str:
    """The whole page."""
    parts = [HEAD]
    for name, settings in TABLES.items():
        parts += [f"## {_title(name)}\n", f"{_about(settings)}\n", "\n".join(_settings(name)), ""]
    parts += ["## Commands\n", f"{COMMANDS}\n"]
    for words, about, options in _commands():
        parts += [f"### rechannel {words}\n", fill(_escaped(about), width=WIDTH), ""]
        if rows := [_option(one) for one in options if one.name != "help"]:
            parts += ["\n".join(["| option | default | meaning |", "| -- | -- | -- |", *rows]), ""]
    return "\n".join(parts)


COMMANDS = """\
Options hold for the one command that gets them, and those of `rechannel run` until its driver ends.
[The command line](../cli.md) has examples, JSON answers and exit codes."""


def _title(name: str) -> str:
    return HOMES.get(name) or f"rc.{name}"


def _about(settings: Any) -> str:
    text = summary(settings)
    return _escaped(text if text.endswith(".") else f"{text}.")


def _settings(name: str) -> Iterator[str]:
    yield "| name | default | unit or kind | meaning | changed live |"
    yield "| -- | -- | -- | -- | -- |"
    for one, (kind, default, words) in _rows(TABLES[name]).items():
        live = LIVE.get(f"{name}.{one}") or LIVE.get(name) or NEXT_START
        unit = unit_of(one, kind)
        yield f"| `{one}` | {_code(default)} | {_escaped(unit)} | {_escaped(words)} | {live} |"


def _rows(settings: Any) -> dict[str, tuple[str, str, str]]:
    """Type, default and words of each, by name."""
    if inspect.isclass(settings):
        return fields(settings)
    said = arguments(settings)
    parameters = inspect.signature(settings).parameters.values()
    return {p.name: _argument(p, said) for p in parameters if p.name != "self"}


def _argument(one: inspect.Parameter, said: Mapping[str, str]) -> tuple[str, str, str]:
    default = "" if one.default is one.empty else shown(one.default)
    return str(one.annotation), default, said.get(one.name, "")


def unit_of(name: str, kind: str) -> str:
    """The unit of a number, or what the value is."""
    last = name.rpartition("_")[2]
    if name in UNITS:
        return UNITS[name]
    if last in SUFFIXES and re.match(r"int|float", kind):
        return SUFFIXES[last]
    kinds = {"bool": "`True`, `False`", "str": "text", "int": "a number", "float": "a number"}
    plain = kind.removesuffix(" | None")
    return kinds.get(plain) or f"`{plain}`"


def _commands() -> Iterator[tuple[str, str, list[Any]]]:
    """Commands as they are written, what they do, and what they take."""
    group: Any = typer.main.get_command(app)
    for name, command in sorted(group.commands.items()):
        yield name, _first(command), command.params
        below = getattr(command, "commands", {})
        for sub in sorted(below.keys() - {UNNAMED}):
            yield f"{name} {sub}", _first(below[sub]), below[sub].params
        if UNNAMED in below or name == "plan":
            yield from _changing(name, command)


def _changing(name: str, command: Any) -> Iterator[tuple[str, str, list[Any]]]:
    """What all changes take, and then, once, what each takes besides."""
    each = {change: command.get_command(None, change) for change in changes()}
    shared = set.intersection(*({one.name for one in made.params} for made in each.values()))
    some = next(iter(each.values()))
    yield (
        f"{name} URL CHANGE",
        "What every change takes.",
        [one for one in some.params if one.name in shared],
    )
    if name == "reconfigure":
        for change, made in each.items():
            own = [one for one in made.params if one.name not in shared]
            yield f"{name} URL {change}", _first(made), own


def _option(one: Any) -> str:
    words, _, told = (one.help or "").removesuffix("]").partition(" [default: ")
    usage = _escaped(f"`{_usage(one)}`")
    return f"| {usage} | {_escaped(told) or _default(one)} | {_escaped(words)} |"


def _usage(one: Any) -> str:
    if not one.opts[0].startswith("-"):
        return str(one.metavar or one.name.upper())
    long = max(one.opts, key=len)
    return long if one.is_flag else f"{long} {one.metavar or one.name.upper()}"


def _default(one: Any) -> str:
    if one.required:
        return "needed"
    value = one.default
    nothing = value is None or value is False or value == "" or isinstance(value, list)
    return "" if nothing or callable(value) else _code(str(value))


def _first(command: Any) -> str:
    return " ".join((command.help or "").split("\n\n")[0].split())


def _code(text: str) -> str:
    return _escaped(f"`{text}`") if text else "needed"


def _escaped(text: str) -> str:
    """As a cell of a table, or a paragraph: what looks like markup outside of code is text."""
    parts = re.split(r"(`[^`]*`)", text)
    return "".join(one if one.startswith("`") else _plain(one) for one in parts).replace("|", "\\|")


def _plain(text: str) -> str:
    return re.sub(r"\*(?=\S)|(?<=\S)\*|<", r"\\\g<0>", text)
