from __future__ import annotations

import io
import json
import threading
import time

import pytest
from rich.console import Console

import rechannel as rc
from rechannel.cli.remote.frame import WIDTH, bar, frame, percentile, sparkline


def drawn(facts) -> list[str]:
    console = Console(width=120, file=io.StringIO())
    console.print(frame(facts))
    return [line.rstrip() for line in console.file.getvalue().splitlines()]


NOTHING_LOST = {"rows_late": 0, "rows_dead": 2, "event_time_lag_s": None}
STATUS = {
    "name": "shop",
    "message": "running",
    "timestep": 41,
    "configuration": 7,
    "lag": {},
    "operators": {
        "orders": {"tasks": 2, "bins": None, **NOTHING_LOST},
        "counts": {
            "tasks": 8, "bins": 256, "rows_late": 3, "rows_dead": 0, "event_time_lag_s": 61.25,
        },
    },
}  # fmt: skip
LAST = {
    "duration_ms": 80.0,
    "processed_rows_per_second": 12500.0,
    "operators": {
        "orders": {"rows_in": 1000, "rows_out": 1000, "state_rows": None, "state_bytes": None},
        "counts": {"rows_in": 1000, "rows_out": 40, "state_rows": 40, "state_bytes": 2048},
    },
}


def test_a_frame():
    recent = [{**LAST, "duration_ms": float(ms)} for ms in (10, 20, 40)] + [LAST]
    one = {"id": "r3", "change": "rescale(operator='counts', tasks=8)"}
    moving = {**one, "phase": "moving", "bins": 48, "bins_left": 144}
    waiting = {**one, "id": "r4", "phase": "waiting", "bins": 0, "bins_left": 0}
    facts = {
        "status": STATUS,
        "progress": {"last": LAST, "recent": recent},
        "open": [moving, waiting],
    }
    assert drawn(facts) == [
        "shop  running  timestep 41  configuration 7",
        "latency  ▂▃▅█  last 80 ms  p50 40 ms  p99 80 ms  12,500 rows/s",
        "",
        "operator  tasks  bins  rows in  rows out  state rows    state  late  dead  lag of event time",
        "orders        2     -    1,000     1,000           -        -     0     2                  -",
        "counts        8   256    1,000        40          40  2.0 KiB     3     0             61.2 s",
        "",
        "id  change                               phase    bins                      moved",
        f"r3  rescale(operator='counts', tasks=8)  moving   {'█' * 6}{'░' * 18}  48 of 192",
        "r4  rescale(operator='counts', tasks=8)  waiting  -                         -",
    ]


def test_before_the_first_timestep():
    status = {**STATUS, "timestep": None, "message": "failed: it\nTraceback"}
    lines = drawn({"status": status, "progress": {"last": None, "recent": []}, "open": []})
    assert lines[0] == "shop  failed: it  no timestep is committed  configuration 7"
    assert lines[-1].split() == ["counts", "8", "256", *"----", "3", "0", "61.2", "s"]


def test_what_a_source_cannot_tell_is_unknown():
    waiting = {"rows": 1200, "bytes": 4096, "seconds": 3.0, "at_least": True, "estimated": "rows"}
    silent = {"rows": None, "bytes": None, "seconds": None, "at_least": False, "estimated": None}
    status = {**STATUS, "lag": {"orders": waiting, "prices": silent}}
    lines = drawn({"status": status, "progress": {"last": None, "recent": []}, "open": []})
    assert lines[2:5] == [
        "source  unread rows  unread bytes  seconds waited",
        "orders       ~1,200       4.0 KiB            >3.0",
        "prices      unknown       unknown         unknown",
    ]


def test_figures():
    assert sparkline([]) == ""
    assert sparkline([0.0, 0.0]) == "▁▁"
    assert sparkline([1, 8]) == "▂█"
    assert percentile([3.0, 1.0, 2.0], 0.5) == 2
    assert percentile([1.0], 0.99) == 1
    assert bar(0, 0) == "█" * WIDTH
    assert bar(0, 5) == "░" * WIDTH
    assert bar(5, 5) == "█" * WIDTH


def test_one_frame_of_a_running_job(rechannel, clicks):
    clicks.push([("ann", 1), ("bob", 2)])
    clicks.running.reconfigure(rc.changes.rescale("users", tasks=4), at=1000)
    with clicks.running.serve(port=0) as server:
        for options in (["--once"], []):
            reaction = rechannel("watch", server.url, *options)
            assert reaction.code == 0
            assert reaction.lines[0].startswith("clicks  running  timestep 1  configuration ")
            assert any(line.startswith("r1  rescale(operator='users'") for line in reaction.lines)
        facts = json.loads(rechannel("watch", server.url, "--json").out)
        assert set(facts) == {"status", "progress", "open"}
        assert facts["status"]["name"] == "clicks"


@pytest.mark.parametrize("how", ["stopped", "gone"])
def test_a_live_view_ends_with_the_job(rechannel, clicks, monkeypatch, how):
    console = Console(force_terminal=True, width=100, file=io.StringIO())
    monkeypatch.setattr("rechannel.cli.jobs.watch.out", lambda: console)
    clicks.push([("ann", 1), ("bob", 2)])
    with clicks.running.serve(port=0) as server:

        def end_it():
            while "clicks" not in console.file.getvalue():
                time.sleep(0.01)
            if how == "stopped":
                clicks.running.stop()
            else:
                server.close()

        thread = threading.Thread(target=end_it)
        thread.start()
        reaction = rechannel("watch", server.url, "--every", "0.1")
        thread.join(60)
    assert reaction.code == 0
    text = console.file.getvalue()
    assert "clicks" in text
    assert ("stopped" in text) is (how == "stopped")
    assert ("no longer answers" in reaction.err) is (how == "gone")
