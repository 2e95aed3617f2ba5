from __future__ import annotations

import json

import pyarrow as pa
import pytest

from rechannel.cli.inspect import rows as rows_module
from rechannel.cli.inspect.directory import open_directory
from rechannel.cli.inspect.rows import stored_rows


def as_the_job_sees_it(clicks, operator: str) -> pa.Table:
    return clicks.running.state_table(operator).drop(["_hash"])


@pytest.mark.parametrize("operator", ["users", "totals"])
@pytest.mark.parametrize("slice_rows", [1, 3, 100_000])
def test_rows_are_those_of_the_job_whatever_the_slices(clicks, monkeypatch, operator, slice_rows):
    monkeypatch.setattr(rows_module, "SLICE_ROWS", slice_rows)
    for number in range(12):
        clicks.push([(f"u{number * i % 17}", -1 if i == 5 else i) for i in range(1, 9)])
    found = stored_rows(open_directory(clicks.directory), operator, None, None)
    expected = as_the_job_sees_it(clicks, operator)
    assert found.rows.equals(expected.cast(found.rows.schema))
    assert found.rows.num_rows > 5
    assert (found.keys, found.more, found.timestep) == (1, False, 12)


def test_the_limit_cuts_and_says_so(stopped):
    directory = open_directory(stopped.directory)
    whole = stored_rows(directory, "users", None, None)
    assert whole.rows.num_rows == 5
    for limit in range(1, 5):
        part = stored_rows(directory, "users", None, limit)
        assert part.more
        assert part.rows.equals(whole.rows.slice(0, limit))
    assert not stored_rows(directory, "users", None, 5).more


def test_dropped_keys_are_gone(stopped, rechannel):
    shown = json.loads(rechannel("state", stopped.directory, "totals", "--json").out)
    assert shown["keys"] == ["user"]
    assert shown["state"] == ["total"]
    assert {row["user"]: row["total"] for row in shown["rows"]} == {
        "ann": 11,
        "cleo": 4,
        "dan": 5,
        None: 3,
    }


def test_looking_back(stopped, rechannel):
    then = json.loads(
        rechannel("state", stopped.directory, "totals", "--timestep", 1, "--json").out
    )
    assert {row["user"]: row["total"] for row in then["rows"]} == {"ann": 1, "bob": 2, None: 3}
    unknown = rechannel("state", stopped.directory, "totals", "--timestep", 99)
    assert unknown.code == 2
    assert "timestep 99 is not kept; kept are [1, 2, 3]" in unknown.err


def test_several_keys_of_several_types_are_told_from_the_state(tmp_path, rechannel):
    import rechannel as rc
    from rechannel import aggregates as agg
    from rechannel.job import InProcess
    from rechannel.sources.connectors import MemoryConnector

    schema = pa.schema(
        [
            ("day", pa.date32()),
            ("price", pa.decimal128(9, 2)),
            ("raw", pa.binary()),
            ("at", pa.timestamp("us", "UTC")),
        ]
    )
    rows = MemoryConnector(schema=schema)
    stream = rc.read().memory(rows, name="rows")
    keyed = stream.key_by("day", "price", "raw")
    flow = keyed.aggregate(last=agg.last("at"), two=agg.last_n("price", 2), name="op")
    job = rc.Job("many", flow, state=tmp_path / "state").start(in_process=InProcess())
    rows.push(
        pa.RecordBatch.from_pylist(
            [{"day": None, "price": 1, "raw": b"\x00\xff", "at": 10**15}], schema=schema
        )
    )
    job.process_all_available(60)
    job.stop()
    shown = json.loads(rechannel("state", tmp_path / "state", "op", "--json").out)
    assert shown["keys"] == ["day", "price", "raw"]
    [row] = shown["rows"]
    assert (row["day"], row["price"], row["raw"]) == (None, "1.00", "00ff")


def test_an_unknown_operator_is_refused_with_those_there_are(stopped, rechannel):
    reaction = rechannel("state", stopped.directory, "nobody")
    assert reaction.code == 2
    assert "keeps no state for 'nobody'; it keeps state for: totals, users" in reaction.err


def test_nothing_committed_yet(clicks, rechannel):
    reaction = rechannel("state", clicks.directory, "users")
    assert reaction.code == 2
    assert "has committed no timestep yet" in reaction.err


def test_a_file_that_is_deleted_while_it_is_read_is_looked_for_again(clicks, monkeypatch):
    """As a running job does: what was read of the journal names a segment that is swept then."""
    clicks.push([("ann", 1)])
    real, stale = rows_module.read_only, []

    def late(store):
        state = real(store)
        if not stale:
            stale.append(state)
            for number in range(6):
                clicks.push([("ann", number), ("bob", number)])
            named = {key for version in real(store).versions.values() for key in version.files()}
            for path in clicks.files("segments"):
                if path.relative_to(clicks.directory).as_posix() not in named:
                    path.unlink()
        return state

    monkeypatch.setattr(rows_module, "read_only", late)
    found = stored_rows(open_directory(clicks.directory), "users", None, None)
    assert found.timestep == 7
    assert stale[0].last_committed == 1


def test_a_missing_file_that_is_still_named_is_an_error(stopped, rechannel):
    for path in stopped.files("segments/users"):
        path.unlink()
    reaction = rechannel("state", stopped.directory, "users")
    assert reaction.code == 2
    assert "is missing" in reaction.err
