"""`reconfigure`, `plan`, `history` and `abort` against a job that runs."""

from __future__ import annotations

import json

import pytest

import rechannel as rc
from rechannel.cli.remote.commands import changes

TOKEN = "s3cret-s3cret"


@pytest.fixture
def job(clicks):
    clicks.push([("ann", 1), ("bob", 2)])
    return clicks.running


@pytest.fixture
def url(job):
    with job.serve(port=0) as server:
        yield server.url


def test_a_change_is_asked_for(rechannel, url, job, clicks):
    reaction = rechannel(
        "reconfigure", url, "rescale", "users", "--tasks", "8", "--strategy", "fluid",
        "--budget", "50ms", "--gap", "2", "--cause", "a test",
    )  # fmt: skip
    assert (reaction.code, reaction.lines) == (0, ["Reconfiguration r1 is accepted."])
    clicks.push([("ann", 1)])
    assert job.configuration.operators["users"].tasks == 8
    made = job.reconfiguration("r1").summary()
    assert made.strategy == "fluid(gap=2, budget_ms=50.0)"
    assert made.cause == "a test"


def test_waiting_for_the_end(rechannel, url, job):
    reaction = rechannel("reconfigure", url, "rescale", "users", "--tasks", 4, "--wait")
    assert (reaction.code, reaction.lines) == (
        0, ["Reconfiguration r1 is done: 128 bins moved in timesteps 2 to 2."],
    )  # fmt: skip
    again = rechannel("reconfigure", url, "rescale", "users", "--tasks", 4, "--wait", "--json")
    assert (again.code, json.loads(again.out)["reason"]) == (0, "nothing had to change")


def test_what_ends_otherwise_than_done_is_a_bad_answer(rechannel, url, job):
    job.reconfigure(rc.changes.set_interval(5), at=1000)

    def aborted_meanwhile():
        while len(job.history()) < 2:
            pass
        job.abort("r2", "no")

    import threading

    thread = threading.Thread(target=aborted_meanwhile, daemon=True)
    thread.start()
    reaction = rechannel(
        "reconfigure", url, "rescale", "users", "--tasks", 4, "--at", 999, "--wait"
    )
    thread.join(60)
    assert (reaction.code, reaction.lines) == (1, ["Reconfiguration r2 is aborted: no."])


def test_waiting_ends_and_the_reconfiguration_goes_on(rechannel, url, job):
    asked = ("reconfigure", url, "rescale", "users", "--tasks", 4, "--at", 1000, "--wait")
    reaction = rechannel(*asked, "--timeout", "1ms")
    assert reaction.code == 4
    assert reaction.lines[0].startswith("Reconfiguration r1 is ")
    assert f"rechannel history {url} r1" in reaction.err
    assert f"rechannel abort {url} r1" in reaction.err
    assert [one.id for one in job.open_reconfigurations] == ["r1"]
    told = json.loads(rechannel(*asked, "--supersede", "--timeout", "1ms", "--json").out)
    assert (told["id"], told["open"]) == ("r2", True)
    for odd in ("soon", "30"):
        reaction = rechannel(*asked, "--timeout", odd)
        assert (reaction.code, "write a number and its unit" in reaction.err) == (2, True)
    assert len(job.history()) == 2


def test_a_plan_is_shown_saved_and_replayed(rechannel, url, job, tmp_path):
    file = tmp_path / "plan.json"
    reaction = rechannel(
        "plan", url, "rescale", "users", "--tasks", 4, "--strategy", "batched", "--bins", 64,
        "--save", file,
    )  # fmt: skip
    assert reaction.code == 0
    assert reaction.lines[0] == "rescale(operator='users', tasks=4) by batched(bins=64)"
    assert "128 bins" in reaction.lines[1]
    assert f"the plan is in {file}" in reaction.err
    assert rc.changes.Plan.load(file).bins == 128
    assert job.history() == []
    replayed = rechannel("reconfigure", url, "--plan", file, "--wait", "--json")
    assert replayed.code == 0
    assert json.loads(replayed.out)["steps"] == {"made": 2, "left": 0}
    assert rechannel("reconfigure", url, "--plan", file).code == 2


def test_plan_files_that_are_none(rechannel, url, tmp_path):
    file = tmp_path / "plan.json"
    missing = rechannel("reconfigure", url, "--plan", file)
    assert (missing.code, "cannot be read" in missing.err) == (2, True)
    file.write_text("{")
    assert "cannot be read" in rechannel("reconfigure", url, "--plan", file).err
    file.write_text('{"format": 1}')
    assert "plan: not a valid plan: " in rechannel("reconfigure", url, "--plan", file).err
    assert rechannel("plan", url, "rescale", "users", "--tasks", 4, "--save", tmp_path).code == 2


PLANNED = {
    "rescale": ["users", "--tasks", "3"],
    "rebalance": ["users", "--tolerance", "0.2"],
    "move": ["users", "0-3,9", "--task", "1"],
    "split": ["users", "1", "--into", "4"],
    "merge": ["users", "0-1"],
    "rewrite": ["users"],
    "place": ["users", "--task", "1"],
    "combine": ["users", "off"],
    "set-interval": ["0.5s"],
    "set-in-flight": ["2"],
    "set-bound": ["clicks", "1000"],
    "executors": ["1"],
    "assign-resources": ["users", "--cpus", "1"],
}


@pytest.mark.parametrize("change", PLANNED)
def test_every_change_can_be_said(rechannel, url, change):
    reaction = rechannel("plan", url, change, *PLANNED[change], "--json")
    assert reaction.code == 0, reaction.err
    # A plan says where everything goes, also when the load is another by the time it is replayed.
    kind = "assign_workload" if change == "rebalance" else change.replace("-", "_")
    assert json.loads(reaction.out)["change"]["kind"] == kind


REFUSED = {
    "spread": (
        ["users", "--key", "ann", "--over", "0,1", "--side", "left"],
        "combine('users', 'on')",
    ),
    "gather": (["users", "--bin", "0"], "bin 0 is not spread"),
}
"""Those that an aggregate cannot have."""


@pytest.mark.parametrize("change", REFUSED)
def test_a_change_of_joins_is_refused_with_the_reason(rechannel, url, change):
    arguments, reason = REFUSED[change]
    reaction = rechannel("plan", url, change, *arguments)
    assert reaction.code != 0
    assert reason in reaction.err


def test_logic_is_named_by_its_import_path(rechannel, url):
    assert set(changes()) == {*PLANNED, *REFUSED, "assign-logic"}
    reaction = rechannel("plan", url, "assign-logic", "users", "no.such:thing")
    assert (reaction.code, "no.such:thing" in reaction.err) == (2, True)
    assert "function" in rechannel("plan", url, "assign-logic", "users", "1+1").err
    factory = ("plan", url, "assign-logic", "users", "no.such:thing", "--parameters")
    assert "'no.such:thing' may not be loaded" in rechannel(*factory, '{"limit": 5}').err
    assert "is not JSON" in rechannel(*factory, "{limit: 5}").err
    assert "parameters: expected" in rechannel(*factory, "5").err


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["rescale", "nobody", "--tasks", "3"], "there is no operator 'nobody'"),
        (["rescale", "users", "--tasks", "0"], "rescale: tasks: expected int >= 1, got 0"),
        (["rescale", "users"], "Missing option '--tasks'"),
        (["reskale", "users"], "No such command 'reskale'"),
        (["rescale", "users", "--tasks", "3", "--strategy", "brutal"], "there is no strategy"),
        (["rescale", "users", "--tasks", "3", "--bins", "2"], "need a strategy with several steps"),
        (["rescale", "users", "--tasks", "3", "--budget", "5 apples"], "is not a budget"),
        (["move", "users", "1-", "--task", "0"], "is not a list of bins"),
        (["combine", "users", "maybe"], "combine: mode: there is no 'maybe' here"),
        (["set-interval", "soon"], "is not a time"),
        (["set-bound", "clicks", "few"], "is not a bound"),
        (["assign-resources", "users", "--amount", "gpu"], "is not an amount"),
        (["assign-resources", "users", "--memory", "big"], "is not a size"),
    ],
    ids=lambda one: " ".join(one) if isinstance(one, list) else "",
)
def test_what_cannot_be_done_is_said(rechannel, url, arguments, words):
    reaction = rechannel("reconfigure", url, *arguments)
    assert reaction.code == 2
    assert words in reaction.err
    assert reaction.out == ""


def test_abort_and_history(rechannel, url, job, clicks):
    empty = rechannel("history", url)
    assert empty.lines == ["There was no reconfiguration."]
    rechannel("reconfigure", url, "rescale", "users", "--tasks", "4", "--at", "1000")
    reaction = rechannel("abort", url, "r1", "--reason", "second thoughts")
    assert (reaction.code, reaction.lines) == (0, ["Reconfiguration r1 is aborted."])
    assert rechannel("abort", url, "r1").code == 2
    assert "there is no reconfiguration 'r9'" in rechannel("abort", url, "r9").err
    rechannel("reconfigure", url, "rescale", "users", "--tasks", "4", "--wait")
    clicks.push([("ann", 1)])
    for where in (url, clicks.directory):
        head, first, second = rechannel("history", where).lines
        assert head.split() == [
            "id",
            "change",
            "phase",
            "bins",
            "bytes",
            "timesteps",
            "cause",
            "reason",
        ]
        assert first.endswith("second thoughts")
        newest = rechannel("history", where, "--last", "1").lines
        assert [line.split()[0] for line in newest] == ["id", "r2"]
        assert second.split()[:4] == ["r2", "rescale(operator='users',", "tasks=4)", "done"]
        found = json.loads(rechannel("history", where, "--json").out)["reconfigurations"]
        assert [one["phase"] for one in found] == ["aborted", "done"]
        one = rechannel("history", where, "r2")
        assert one.lines[0] == "Reconfiguration r2 is done."
        assert any(line.startswith("moved") and "128 bins" in line for line in one.lines)
        assert json.loads(rechannel("history", where, "r2", "--json").out)["id"] == "r2"
        missing = rechannel("history", where, "r9")
        assert (missing.code, "no reconfiguration 'r9'" in missing.err) == (2, True)


def test_a_running_one_shows_in_the_state_directory(rechannel, url, job, clicks):
    rechannel("reconfigure", url, "rescale", "users", "--tasks", "4", "--at", "1000")

    def prepared(position):
        return [one.phase for one in position.coordination.records] == ["ready"]

    assert job._driver.wait_for(prepared, 60)
    assert " ready " in rechannel("history", clicks.directory).lines[1]
    assert rechannel("history", clicks.directory.parent).code == 2


def test_tokens(rechannel, job, monkeypatch):
    with job.serve(port=0, token=TOKEN) as server:
        refused = rechannel("history", server.url)
        assert (refused.code, "needs its token" in refused.err) == (2, True)
        assert rechannel("history", server.url, "--token", "wrong").code == 2
        for odd in ("s\xe9cret", "two\nlines"):
            assert "not printable ASCII" in rechannel("history", server.url, "--token", odd).err
        assert rechannel("history", server.url, "--token", TOKEN).code == 0
        monkeypatch.setenv("RECHANNEL_TOKEN", TOKEN)
        assert rechannel("watch", server.url, "--once").code == 0
        assert rechannel("plan", server.url, "rescale", "users", "--tasks", "4").code == 0


@pytest.mark.parametrize("url", ["http://127.0.0.1:1", "127.0.0.1:1"])
def test_where_nobody_listens(rechannel, url):
    reaction = rechannel("reconfigure", url, "rescale", "users", "--tasks", "3")
    assert (reaction.code, "nothing answers at" in reaction.err) == (2, True)


@pytest.mark.parametrize("url", ["ftp://host", "http://", "http://[", "http://h:x"])
def test_what_is_no_url(rechannel, url):
    reaction = rechannel("abort", url, "r1")
    assert (reaction.code, "is not the URL of a job" in reaction.err) == (2, True)


def test_a_job_that_has_ended(rechannel, job, url):
    job.stop()
    reaction = rechannel("reconfigure", url, "rescale", "users", "--tasks", "3")
    assert (reaction.code, "has ended" in reaction.err) == (2, True)
