"""docs/cli.md tells of every command and option, and of nothing that is not there."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
import typer

from rechannel.cli.app import app

PAGE = (Path(__file__).parents[3] / "docs" / "cli.md").read_text(encoding="utf-8")


def section(command: str) -> str:
    return PAGE.split(f"\n## {command}\n")[1].split("\n## ")[0]


def options_of(command: str) -> set[str]:
    group = typer.main.get_command(app)
    parameters = group.commands[command].params
    return {name for p in parameters for name in p.opts if name.startswith("--")} - {"--help"}


def test_every_command_has_a_section():
    group = typer.main.get_command(app)
    assert set(re.findall(r"^## (\w+)$", PAGE, re.MULTILINE)) == set(group.commands)


@pytest.mark.parametrize("command", ["demo", "run", "status", "state", "events", "verify"])
def test_every_option_is_told_and_no_other(command):
    text = section(command)
    usage = next(line for line in text.splitlines() if line.startswith("    rechannel "))
    assert set(re.findall(r"--[a-z-]+", usage)) == options_of(command)
    rows = "\n".join(line for line in text.splitlines() if line.startswith("| "))
    assert all(option in rows for option in options_of(command))


def test_members_of_json_are_those_of_the_page(stopped, rechannel):
    status = set(json.loads(rechannel("status", stopped.directory, "--json").out))
    verify = set(json.loads(rechannel("verify", stopped.directory, "--json").out))
    state = set(json.loads(rechannel("state", stopped.directory, "users", "--json").out))
    for command, members in (("status", status), ("verify", verify)):
        firsts = re.findall(r"^\| ([^|]+) \|", section(command), re.MULTILINE)
        told = {name for cell in firsts for name in re.findall(r"`(\w+)`", cell)}
        assert told == members
    [line] = [line for line in section("state").splitlines() if line.startswith("| `--json`")]
    assert set(re.findall(r"`(\w+)`", line.split("|")[2])) == state
