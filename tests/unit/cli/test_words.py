"""What errors advise, as options of commands."""

from __future__ import annotations

import inspect

import pytest
import typer

from rechannel.cli.app import app
from rechannel.cli.words import FLAGS, LISTS, in_options
from rechannel.job import Job


@pytest.mark.parametrize(
    ("said", "told"),
    [
        ("or start with takeover=True to fence it", "or start with --takeover to fence it"),
        ("revert the change with start(revert=True)", "revert the change with rechannel run FILE --revert"),
        ("if that is meant, start(fresh=['a', 'b c'])", "if that is meant, rechannel run FILE --fresh a --fresh 'b c'"),
        ("start(fresh=['new'], without=['old'])", "rechannel run FILE --fresh new --without old"),
        ("remove it with start(remove_later_output=True)", "remove it with rechannel run FILE --remove-later-output"),
        ("wait, or say supersede=True", "wait, or say --supersede"),
        ("port 1 cannot be had; port=0 takes a free one", "port 1 cannot be had; port 0 takes a free one"),
        ("start(x) with f=True and rc.Job(..., migrations=[f])",) * 2,
    ],
)  # fmt: skip
def test_arguments_become_options(said, told):
    assert in_options(said) == told


OF_OTHERS = {"supersede": "deploy", "accept_repeats_and_gaps": "reset"}
"""Arguments of other calls than a start, and a command that has the option."""


def test_every_option_is_there():
    run = typer.main.get_command(app).commands["run"]
    options = {option for parameter in run.params for option in parameter.opts}
    own = {*FLAGS, *LISTS} - OF_OTHERS.keys()
    assert {f"--{name.replace('_', '-')}" for name in own} <= options
    for name, command in OF_OTHERS.items():
        parameters = typer.main.get_command(app).commands[command].params
        assert f"--{name.replace('_', '-')}" in {o for each in parameters for o in each.opts}


def test_whatever_a_start_can_be_told_the_command_can_say():
    elsewhere = {"self", "clock", "in_process", "allow"}  # `run` has options of their own for them
    told = set(inspect.signature(Job.start).parameters) - elsewhere
    assert told == {*FLAGS, *LISTS} - OF_OTHERS.keys()
