"""Edits of a program by commands whose processes are killed at their writes: the same command, once more, goes on.

The table of edits is that of the tests in this process. `--thorough` kills at every write, else at two of them.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import rechannel as rc
from tests.support.edited_files import Service, feed, state_of, wait_for
from tests.support.killed import Commands, commands
from tests.support.text_edits import EDITS, FIRST, SECOND

MADE = [name for name, edit in EDITS.items() if edit.state is not None]
REFUSED = [name for name, edit in EDITS.items() if edit.refused]


def carried(edit: Any, state: Any) -> Any:
    """Return the part of state that an edit carries over."""
    return {
        name: {
            key: {column: value for column, value in row.items() if column not in edit.anew}
            for key, row in keys.items()
        }
        for name, keys in state.items()
        if name not in edit.anew
    }


LIVE = [name for name in MADE if not EDITS[name].live]
AT_A_RESTART = [name for name in MADE if EDITS[name].live]
CARRIED = [
    name
    for name in MADE
    if carried(EDITS[name], EDITS[name].state) and not name.startswith("window")
]


def some(names: list[str], *quick: str) -> list[Any]:
    """Return parameters, of which the others than the quick ones are slow."""
    return [pytest.param(name, marks=() if name in quick else pytest.mark.slow) for name in names]


@pytest.fixture(scope="module")
def forked() -> Iterator[Commands]:
    with commands() as made:
        yield made


@pytest.fixture
def service(request: pytest.FixtureRequest, tmp_path: Path, forked: Commands) -> Service:
    """The service of an edit: its old text has run over the first rows, and its new one is in the file."""
    made = Service(tmp_path / "service", request.node.callspec.params["name"], forked)
    made.begin()
    return made


def points(writes: int, thorough: bool) -> range:
    """Return the writes at which a command is killed. writes: how many it has made when it was not."""
    assert writes > 10
    return range(1, writes + 1) if thorough else range(writes // 3, writes, writes // 2)


@pytest.mark.parametrize("name", some(MADE, "source renamed"))
def test_run_upgrade_is_killed(name, service, thorough):
    command = ("run", "--upgrade", "--until-idle", *service.without)
    service.feed(2, SECOND)
    service.run(*command)
    published, writes = service.published(), service.writes
    assert service.found() == service.edit.state
    ended = 0
    for at in points(writes, thorough):
        service.again()
        service.feed(2, SECOND)
        ended += service.run(*command, at=at)
        service.run(*command)
        assert service.published() == published
        assert service.found() == service.edit.state
    assert ended <= 1, "threads may make a write less, not more of them"


@pytest.mark.parametrize("name", some(MADE, "operator removed"))
def test_upgrade_is_killed(name, service, thorough):
    command = ("upgrade", "--yes", *service.without)
    service.run(*command)
    ended = 0
    for at in points(service.writes, thorough):
        service.again()
        ended += service.run(*command, at=at)
        service.run(*command)
        assert service.state.last_committed == 1
        service.feed(2, SECOND)
        service.run("run", "--until-idle")
        assert service.found() == service.edit.state
    assert ended <= 1


@pytest.mark.parametrize("name", some(LIVE, "state of track"))
def test_a_job_is_killed_during_a_deploy(name, service, thorough):
    """The service runs `run --upgrade` on the file that is deployed: whichever text holds, a start goes on."""
    published, writes = deployed(service, 0), service.writes
    assert service.found() == service.edit.state
    for at in points(writes, thorough):
        service.again()
        assert deployed(service, at) == published
        assert service.found() == service.edit.state


def deployed(service: Service, at: int) -> dict[str, list[dict[str, Any]]]:
    """Deploy the new text to the old one while it runs, then feed the second rows; return what was published.

    at: the write at which the job is killed; it is started once more then. What a source reads that begins anew comes
    in as many timesteps as it happens: of these rows, the last one of each key counts."""
    service.bring("old")
    with service.served(at) as job:
        service.bring("new")
        service.arm()
        assert job.deploy() == 0 or job.ended, job.answer
        service.feed(2, SECOND)
        wait_for(lambda: job.ended or is_done(service))
    service.run("run", "--upgrade", "--until-idle", *service.without)
    published = service.published()
    if "in" not in service.edit.said.get("without", ()):
        return published
    return {
        sink: list({(row["k"], *sorted(row)): row for row in rows}.values())
        for sink, rows in published.items()
    }


def is_done(service: Service) -> bool:
    state = service.state
    return state.last_committed == 2 and not state.unpublished


@pytest.mark.parametrize("name", some(AT_A_RESTART, "operator renamed"))
def test_a_deploy_leaves_to_a_restart_what_a_running_job_cannot_do(name, service):
    service.bring("old")
    with service.served() as job:
        number = service.state.number
        service.bring("new")
        assert job.deploy() == 2
        assert re.search(f"(?s){service.edit.live}", job.answer)
        assert service.state.number == number


@pytest.mark.parametrize("name", some(REFUSED, "window changed"))
def test_what_would_be_lost_is_refused_with_the_line_to_add(name, service):
    service.bring("bare")
    number = service.state.number
    service.run("upgrade", "--yes", code=2)
    line = re.sub(r"without=\\\['(\w+)'\\\]", r"--without \1", service.edit.refused)
    assert re.search(f"(?s){line}", service.told)
    assert service.state.number == number


@pytest.mark.parametrize("name", CARRIED)
def test_what_is_carried_over_is_what_a_batch_of_the_new_text_gives(name, tmp_path):
    edit = EDITS[name]
    with batch(edit.new, tmp_path) as result:
        assert carried(edit, state_of(result, edit)) == carried(edit, edit.state)


def test_windows_that_are_carried_over_are_those_that_a_batch_completes(tmp_path):
    edit = EDITS["window beside"]
    with batch(edit.new, tmp_path) as result:
        rows = result.output("op-out").to_pylist()
    assert {row.pop("k"): row for row in rows} == edit.state["op"]


def batch(flows: Any, place: Path) -> rc.BatchResult:
    """Run a text over all rows."""
    for number, rows in enumerate((FIRST, SECOND)):
        feed(place, number, rows)
    return rc.run_batch(flows(place), in_process=rc.InProcess())
