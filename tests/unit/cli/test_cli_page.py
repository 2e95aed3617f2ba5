"""docs/cli.md tells of every command and option, and of nothing that is not there."""

from __future__ import annotations

import json
import re
import shlex
from pathlib import Path

import pytest
import typer

import rechannel as rc
from rechannel.cli.app import app
from rechannel.cli.remote.commands import UNNAMED, changes
from tests.support import endless
from tests.support.controllers import shop_control
from tests.unit.profiling import logs
from tests.unit.scaling.files.word_count import write_word_count

PAGE = (Path(__file__).parents[3] / "docs" / "cli.md").read_text(encoding="utf-8")


COMMANDS = [
    *(
        "demo",
        "run",
        "explain",
        "upgrade",
        "deploy",
        "edit-state",
        "reset",
        "savepoint",
        "savepoints",
        "fork",
        "ingest",
        "status",
        "state",
        "events",
        "verify",
        "repair",
        "replay",
        "replay-dead-letters",
    ),
    *(
        "reconfigure",
        "plan",
        "history",
        "abort",
        "controllers",
        "control",
        "watch",
        "ui",
        "profile",
    ),
    *("scale", "advice"),
]


def section(command: str) -> str:
    return PAGE.split(f"\n## {command}\n")[1].split("\n## ")[0]


def options_of(command: str) -> set[str]:
    group = typer.main.get_command(app)
    found = group.commands[command]
    parameters = found.params
    if command == "control":
        parameters = [p for action in found.commands.values() for p in action.params]
    elif hasattr(found, "commands"):  # a group: what its changes share is its own
        others = [found.get_command(None, name) for name in changes()]
        shared = set.intersection(*({p.name for p in other.params} for other in others))
        parameters = [p for p in others[0].params if p.name in shared]
        parameters += getattr(found.commands.get(UNNAMED), "params", [])
    return {name for p in parameters for name in p.opts if name.startswith("--")} - {"--help"}


def test_every_command_has_a_section():
    group = typer.main.get_command(app)
    assert set(re.findall(r"^## ([\w-]+)$", PAGE, re.MULTILINE)) == set(group.commands)


@pytest.mark.parametrize("command", COMMANDS)
def test_every_option_is_told_and_no_other(command):
    text = section(command)
    usage = " ".join(re.findall(r"^```\nrechannel (.*?)^```$", text, re.MULTILINE | re.DOTALL))
    if command in {"reconfigure", "plan"}:  # changes have options of their own
        text = re.sub(r"\| change \|.*?\n\n", "", text, flags=re.DOTALL)
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
    asked = rechannel("sql", stopped.directory, "SELECT n FROM users", "--json")
    for command, members in (("state", state), ("sql", set(json.loads(asked.out)))):
        [line] = [line for line in section(command).splitlines() if line.startswith("| `--json`")]
        assert set(re.findall(r"`(\w+)`", line.split("|")[2])) == members


def test_the_examples_run(rechannel, tmp_path, monkeypatch, request):
    monkeypatch.chdir(tmp_path)
    shop_control(tmp_path / "path", monkeypatch)
    (tmp_path / "spark-events").mkdir()
    (tmp_path / "spark-events" / "app-1").write_bytes(b"".join(logs.small()))
    write_word_count(tmp_path / "word-count")
    job = endless.start(tmp_path / "state")
    blocks = re.findall(r"^```sh\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)
    request.addfinalizer(job.stop)
    with job.serve(port=0, allow=["shop.control"]) as server:
        for line in "".join(blocks).splitlines():
            words = shlex.split(line.replace("http://127.0.0.1:8520", server.url))
            assert words.pop(0) == "rechannel"
            if "--plan" in words:
                # A plan is for the configuration behind what was asked for before it.
                assert rc.changes.Plan.load("plan.json").steps
            reaction = rechannel(*words)
            assert (
                reaction.code,
                re.sub(
                    "the plan is in plan.json|wrote why.html|wrote needs.html|note: .*",
                    "",
                    reaction.err,
                ).strip(),
            ) == (
                0,
                "",
            ), line
