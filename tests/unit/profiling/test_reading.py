"""Which part of a run is looked at, and in which windows."""

import json
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

import rechannel as rc
from rechannel.cli.app import execute
from rechannel.errors import TraceError
from rechannel.profiling.files.table import write_trace
from rechannel.profiling.model.analysis import ProfileOptions, analyse
from rechannel.profiling.reading import open_file
from tests.unit.profiling.logs import START, info, line, metrics, stage_info, task_end
from tests.unit.profiling.model.test_findings import rounds

MS = 1_000_000
PROGRESS = "org.apache.spark.sql.streaming.StreamingQueryListener$QueryProgressEvent"


def progress(name, number, start, lasted):
    when = datetime.fromtimestamp((START + start) / 1_000, UTC)
    told = {
        "id": f"id of {name}",
        "name": name,
        "timestamp": when.isoformat(timespec="milliseconds").replace("+00:00", "Z"),
        "batchId": number,
        "durationMs": {"triggerExecution": lasted},
    }
    return json.dumps({"Event": PROGRESS, "progress": told}, separators=(",", ":")).encode() + b"\n"


def streamed(tmp_path, *more):
    """A log of two batches, 100 to 400 and 500 to 1,000 ms, a task in each."""
    stage = stage_info(0, scope="Scan")
    lines = [
        line("LogStart", **{"Spark Version": "4.3.0"}),
        line("ApplicationStart", **{"App Name": "streamed", "Timestamp": START}),
        line("JobStart", **{"Job ID": 0, "Submission Time": START + 120, "Stage Infos": [stage]}),
        task_end(0, info(0, "1", 130, 380), metrics(240)),
        line("JobEnd", **{"Job ID": 0, "Completion Time": START + 390}),
        progress("orders", 0, 100, 300),
        line("JobStart", **{"Job ID": 1, "Submission Time": START + 510, "Stage Infos": [stage]}),
        task_end(0, info(1, "1", 520, 980), metrics(440)),
        line("JobEnd", **{"Job ID": 1, "Completion Time": START + 990}),
        progress("orders", 1, 500, 500),
        *more,
        line("ApplicationEnd", Timestamp=START + 1_500),
    ]
    file = tmp_path / "app-1"
    file.write_bytes(b"".join(lines))
    return file


def windows(made):
    rows = made.profile.windows.select("start", "end").rows()
    return [((a - START * MS) / MS, (b - START * MS) / MS) for a, b in rows]


def test_windows_that_are_batches(tmp_path):
    found = rc.profile(streamed(tmp_path), window="batch")
    assert windows(found) == [(100, 400), (500, 1_000)]
    assert found.profile.windows["batch"].to_list() == [0, 1]
    # Between batches the driver is idle, which is in no window of these.
    assert "idle" not in found.profile.by_activity()["kind"].to_list()
    shares = found.profile.over_time("kind").filter(kind="processing")["critical"].to_list()
    assert shares == pytest.approx([240 / 300, 440 / 500])


def test_windows_that_follow_what_the_application_does(tmp_path):
    file = streamed(tmp_path)
    found = rc.profile(file)
    assert windows(found) == [(100, 400), (500, 1_000)]
    assert found.profile.windows["batch"].to_list() == [0, 1]
    # Two streams at once: what overlaps is one window.
    both = streamed(tmp_path, progress("bids", 0, 350, 3_000))
    assert windows(rc.profile(both)) == [(0, 3_350)]
    assert windows(rc.profile(both, query="bids")) == [(350, 3_350)]
    fixed = rc.profile(streamed(tmp_path), window=timedelta(milliseconds=70))
    assert len(fixed.profile.windows) == 22


def joined_log(tmp_path, hot):
    """A job of two stages, four tasks on four cores each: a scan of 1 s, a join of 1 s but for one task of `hot` s."""
    scan = stage_info(0, scope="Scan")
    join = stage_info(1, parents=[0], scope="SortMergeJoin")
    cores = {"Host": "h", "Total Cores": 4}
    lines = [
        line("LogStart", **{"Spark Version": "4.3.0"}),
        line("ApplicationStart", **{"App Name": "joined", "Timestamp": START}),
        line(
            "ExecutorAdded",
            **{"Timestamp": START, "Executor ID": "1", "Executor Info": cores},
        ),
        line("JobStart", **{"Job ID": 0, "Submission Time": START, "Stage Infos": [scan, join]}),
    ]
    for i in range(4):
        lines.append(task_end(0, info(i, "1", 0, 1_000), metrics(1_000)))
    lasts = [hot * 1_000 if i == 2 else 1_000 for i in range(4)]
    for i, last in sorted(enumerate(lasts), key=lambda each: each[1]):
        task = info(4 + i, "1", 1_000, 1_000 + last, Index=i)
        lines.append(task_end(1, task, metrics(last)))
    over = START + 1_000 + max(lasts)
    lines += [
        line("JobEnd", **{"Job ID": 0, "Completion Time": over}),
        line("ApplicationEnd", Timestamp=over),
    ]
    file = tmp_path / "app-join"
    file.write_bytes(b"".join(lines))
    return file


def test_a_join_of_which_one_task_has_nine_times_the_work(tmp_path):
    found = analyse(replace(open_file(joined_log(tmp_path, hot=9)), diagnosis=None))
    assert windows(found) == [(0, 10_000)]
    first = found.findings[0]
    assert (first.cause, first.place.operator) == (
        "straggler",
        "SortMergeJoin (count at job.py:1)",
    )
    assert "9.0 times as long as the median of 4 workers in 'SortMergeJoin" in first.text
    assert first.seconds == pytest.approx(8, abs=0.01)
    # Participation says so, too; what cores were busy with does not.
    worker = found.profile.by_worker().row(0, named=True)
    assert worker["worker"] == first.place.worker
    assert worker["critical"] > 0.9
    assert worker["profile"] < 0.7
    even = analyse(replace(open_file(joined_log(tmp_path, hot=1)), diagnosis=None))
    assert "straggler" not in [each.cause for each in even.findings]


def test_a_fixed_window_does_not_change_what_is_gained(tmp_path):
    opened = replace(open_file(joined_log(tmp_path, hot=9)), diagnosis=None)
    made = [analyse(opened), analyse(opened, ProfileOptions(window=0.7))]
    assert [len(each.profile.windows) for each in made] == [1, 15]
    for each in made:
        (straggler,) = [one for one in each.findings if one.cause == "straggler"]
        assert straggler.seconds == pytest.approx(8, abs=0.01)


def test_batches_of_one_of_several_streams(tmp_path):
    file = streamed(tmp_path, progress("bids", 0, 350, 300))
    with pytest.raises(TraceError, match="several streams: choose one as the query: orders, bids"):
        rc.profile(file, window="batch")
    with pytest.raises(TraceError, match="has no stream 'clicks': choose one of orders, bids"):
        rc.profile(file, window="batch", query="clicks")
    assert windows(rc.profile(file, window="batch", query="bids")) == [(350, 650)]


def test_batches_that_overlap_are_one_behind_the_other(tmp_path):
    file = streamed(tmp_path, progress("orders", 2, 900, 300), progress("orders", 3, 950, 100))
    found = rc.profile(file, window="batch")
    # What is within another one is no window.
    assert windows(found) == [(100, 400), (500, 1_000), (1_000, 1_200)]
    assert found.profile.windows["batch"].to_list() == [0, 1, 2]


def test_a_trace_without_batches(tmp_path):
    file = tmp_path / "trace.parquet"
    write_trace(rounds((30, 10), 1), file)
    with pytest.raises(TraceError, match="no batches that could be windows"):
        rc.profile(file, window="batch")


def test_a_part_of_a_run(tmp_path):
    file = streamed(tmp_path)
    found = rc.profile(
        file,
        window=timedelta(milliseconds=200),
        since=timedelta(milliseconds=450),
        until=timedelta(milliseconds=1000),
    )
    assert windows(found) == [(450, 650), (650, 850), (850, 1_000)]
    # It says what the whole says of that time.
    whole = rc.profile(file, window=timedelta(milliseconds=50)).profile.over_time("kind")
    part = rc.profile(
        file, window=timedelta(milliseconds=50), since=timedelta(milliseconds=450)
    ).profile.over_time("kind")
    same = whole.filter(window=9).drop("window")
    assert part.filter(window=0).drop("window").equals(same)
    assert windows(rc.profile(file, window="batch", since=timedelta(milliseconds=450))) == [
        (500, 1_000)
    ]
    with pytest.raises(TraceError, match=r"nothing from 2 s on: it lasts 1\.5 s"):
        rc.profile(file, since="2 seconds")
    with pytest.raises(TraceError, match=r"nothing between 1 s and 500 ms"):
        rc.profile(file, since="1 second", until=timedelta(milliseconds=500))


def test_the_command_takes_the_same(tmp_path, capsys):
    file = str(streamed(tmp_path))
    assert execute(["profile", file, "--window", "batch", "--json"]) == 0
    assert len(json.loads(capsys.readouterr().out)["windows"]) == 2
    assert execute(["profile", file, "--window", "0.1", "--since", "0.5", "--json"]) == 0
    assert len(json.loads(capsys.readouterr().out)["windows"]) == 10
    assert execute(["profile", file, "--window", "soon"]) == 2
    assert "--window must be 'batch', a length of time" in capsys.readouterr().err


EXAMPLES = Path(__file__).parents[3] / "docs" / "examples"


def test_a_log_is_diagnosed_as_a_whole():
    found = rc.profile(EXAMPLES / "skewed-join.zstd")
    assert [each.cause for each in found.findings if each.weighty] == ["skew"]
    # The worker on which the long task ran is not named as well.
    assert "straggler" not in {each.cause for each in found.findings}


def test_a_part_of_a_log_is_diagnosed_as_if_there_were_nothing_else():
    part = rc.profile(EXAMPLES / "skewed-join.zstd", since="1 second")
    whole = rc.profile(EXAMPLES / "skewed-join.zstd")
    assert [each.findings[0].cause for each in (part, whole)] == ["skew", "skew"]
    assert part.findings[0].seconds == whole.findings[0].seconds
    # The run is shorter, so the same seconds are more of it.
    assert part.findings[0].gain > whole.findings[0].gain
    # Nothing of the stage lies within its own last second.
    late = rc.profile(EXAMPLES / "skewed-join.zstd", since="20 seconds")
    assert "skew" not in {each.cause for each in late.findings}
