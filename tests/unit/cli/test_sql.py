from __future__ import annotations

import json

import pytest

import rechannel as rc
from rechannel import aggregates as agg
from rechannel.cli.inspect import rows as rows_module
from rechannel.errors import MissingFileError

BOTH = (
    "SELECT u.`user`, u.n, t.total FROM users u JOIN totals t ON u.`user` = t.`user`"
    " ORDER BY u.`user`"
)


def asked(rechannel, *arguments):
    reaction = rechannel("sql", *arguments, "--json")
    assert (reaction.code, reaction.err) == (0, "")
    return json.loads(reaction.out)


def test_several_operators_answer_as_of_one_timestep(stopped, rechannel):
    found = asked(rechannel, stopped.directory, BOTH)
    assert found == {
        "timestep": 3,
        "more": False,
        "rows": [
            {"user": "ann", "n": 2, "total": 11},
            {"user": "cleo", "n": 1, "total": 4},
            {"user": "dan", "n": 1, "total": 5},
        ],
    }
    before = asked(rechannel, stopped.directory, BOTH, "--timestep", 1)
    assert (before["timestep"], [r["user"] for r in before["rows"]]) == (1, ["ann", "bob"])


def test_aggregates_are_finished_and_parts_of_others_bear_their_own_names(stopped, rechannel):
    [row] = asked(rechannel, stopped.directory, "SELECT * FROM users WHERE `user` = 'ann'")["rows"]
    assert row == {"user": "ann", "n": 2, "mean": 5.5}
    assert rows_module._values(["a.b.sum", "n", "n.count", "m.count", "m.sum", "x.hashes"]) == [
        "a.b", "n", "n.count", "m.count", "m.sum", "x.hashes",
    ]  # fmt: skip


def test_rows_are_shown_as_a_table(stopped, rechannel):
    shown = rechannel(
        "sql", stopped.directory, "SELECT n, `user` FROM users ORDER BY n DESC, `user`"
    )
    assert shown.code == 0
    assert shown.lines[:4] == ["As of timestep 3.", "", "n  user", "2  ann"]
    cut = rechannel("sql", stopped.directory, "SELECT `user` FROM users", "--limit", 2)
    assert cut.lines[-1] == "These are the first 2 rows; --limit shows more."
    none = rechannel("sql", stopped.directory, "SELECT `user` FROM users WHERE n > 99")
    assert none.lines[-1] == "There are no rows."


@pytest.mark.parametrize(
    ("query", "words"),
    [
        ("SELECT * FROM nobody", "no table nobody; the tables are the operators with state"),
        ("SELECT nothing FROM users", "the query cannot be answered"),
    ],
)
def test_what_cannot_be_answered_is_told(stopped, rechannel, query, words):
    reaction = rechannel("sql", stopped.directory, query)
    assert (reaction.code, reaction.out) == (2, "")
    assert words in reaction.err
    assert "`users`" in reaction.err


def test_a_job_without_a_commit_says_so(clicks, rechannel):
    reaction = rechannel("sql", clicks.directory, "SELECT * FROM users")
    assert reaction.code == 2
    assert "has committed no timestep yet" in reaction.err


def test_all_is_read_again_when_a_running_job_removes_files(clicks, rechannel, monkeypatch):
    clicks.push([("ann", 1)])
    real = rows_module.stored_tables
    states = []

    def stored_tables(directory, names, state, timestep):
        states.append(state.last_committed)
        if len(states) == 1:
            clicks.push([("ann", 2)])
            raise MissingFileError
        return real(directory, names, state, timestep)

    monkeypatch.setattr(rows_module, "stored_tables", stored_tables)
    assert asked(rechannel, clicks.directory, BOTH)["rows"][0]["total"] == 3
    assert states == [1, 2]


def test_operators_that_were_added_to_a_running_job_are_there(clicks, rechannel):
    counts = clicks.running.stream("users").key_by("n").aggregate(m=agg.count(), name="by.n")
    clicks.push([("ann", 1)])
    clicks.running.reconfigure(rc.changes.add(counts)).wait(60)
    empty = rechannel("sql", clicks.directory, "SELECT * FROM `by.n`")
    assert "operator 'by.n' has no state yet" in empty.err
    clicks.push([("ann", 1), ("bob", 2)])
    found = asked(rechannel, clicks.directory, "SELECT n, m FROM `by.n` ORDER BY n")
    assert found["rows"] == [{"n": 1, "m": 1}, {"n": 2, "m": 1}]
    # Ann's first row came before the operator did.
    assert json.loads(rechannel("state", clicks.directory, "by.n", "--json").out)["keys"] == ["n"]
