"""`controllers` and `control` against a job that runs."""

from __future__ import annotations

import json

import pytest

import rechannel as rc
from tests.support.controllers import shop_control

GROW = ("install", "shop.control:Grow", "--parameters", '{"operator": "users", "most": 5}')


@pytest.fixture
def job(clicks, tmp_path, monkeypatch):
    shop_control(tmp_path / "path", monkeypatch)
    clicks.push([("ann", 1), ("bob", 2)])
    return clicks.running


@pytest.fixture
def url(job):
    with job.serve(port=0, allow=["shop.control"]) as server:
        yield server.url


def test_a_controller_is_installed_with_its_settings(rechannel, url, job):
    assert rechannel("controllers", url).lines == ["There is no controller."]
    reaction = rechannel(
        "control", url, *GROW, "--name", "first", "--priority", "-2", "--dry-run",
        "--callback-timeout", "500ms", "--failures", 7,
    )  # fmt: skip
    assert (reaction.code, reaction.lines) == (0, ["Controller first is installed."])
    status = job.controllers["first"].status
    assert (status.priority, status.dry_run) == (-2, True)
    assert status.parameters == {"operator": "users", "most": 5}
    installed = job._parts.controllers.board.seat("first").installed
    assert (installed.seconds, installed.failures) == (0.5, 7)
    header, row = rechannel("controllers", url).lines
    assert header.split() == [
        "name", "class", "condition", "priority", "operations", "requests", "failures",
    ]  # fmt: skip
    assert row.split() == [
        "first",
        "shop.control:Grow",
        "active",
        "(dry",
        "run)",
        "-2",
        "0",
        "0",
        "0",
    ]


def test_it_is_paused_resumed_triggered_and_removed(rechannel, url, job):
    installed = rechannel("control", url, *GROW, "--json")
    assert json.loads(installed.out)["state"] == {"grown": 0}
    for action, said in (
        (("pause", "grow", "--reason", "lunch"), "paused: lunch"),
        (("resume", "grow"), "active"),
        (("trigger", "grow"), "triggered"),
    ):
        reaction = rechannel("control", url, *action)
        assert (reaction.code, reaction.lines) == (0, [f"Controller grow is {said}."])
    one = rechannel("controllers", url, "grow")
    assert one.lines[0] == "Controller grow is active."
    assert one.lines[-3:] == ["paused: lunch", "resumed", "called by hand"]
    shown = json.loads(rechannel("controllers", url, "grow", "--json").out)
    assert shown["parameters"] == {"operator": "users", "most": 5}
    (listed,) = json.loads(rechannel("controllers", url, "--json").out)["controllers"]
    assert listed["name"] == "grow"
    assert rechannel("control", url, "remove", "grow").lines == ["Controller grow is removed."]
    assert job.controllers == {}


def test_one_that_a_program_made_is_shown_too(rechannel, url, job):
    class Own(rc.control.Controller):
        pass

    job.control(rc.control.install(Own(), name="own"))
    job.controllers["own"].pause("later")
    assert "paused: later" in rechannel("controllers", url).lines[1]
    lines = rechannel("controllers", url, "own").lines
    assert lines[0] == "Controller own is paused: later."
    assert lines[-1] == "paused: later"
    assert ["parameters", "-"] in [line.split() for line in lines]


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("install", "os:system"), "may not be loaded"),
        (("install", "shop.control:Rows"), "is no controller"),
        (("install", "shop.control:Grow"), "operator: is missing"),
        (("install", "shop.control:Grow", "--parameters", "most=5"), "is not JSON"),
        (("install", "shop.control:Grow", "--parameters", "[5]"), "is a list: write an object"),
        ((*GROW, "--name", "a b"), "name"),
        ((*GROW, "--callback-timeout", "5"), "a number and its unit"),
        ((*GROW, "--callback-timeout", "20min"), "seconds"),
        (("pause", "nobody"), "there is no controller 'nobody'"),
        (("resume", "nobody"), "there is no controller 'nobody'"),
        (("trigger", "nobody"), "there is no controller 'nobody'"),
        (("remove", "no/body"), "there is no"),
    ],
    ids=str,
)
def test_what_is_refused_says_why(rechannel, url, job, arguments, said):
    reaction = rechannel("control", url, *arguments)
    assert (reaction.code, reaction.out) == (2, "")
    assert said in reaction.err
    assert job.controllers == {}


def test_a_second_one_of_a_name_needs_another(rechannel, url):
    assert rechannel("control", url, *GROW).code == 0
    again = rechannel("control", url, *GROW)
    assert again.code == 2
    assert "give this one another name with --name" in again.err
    assert rechannel("controllers", url, "nobody").code == 2
