"""Controllers that somebody installs over HTTP and that do what nobody should: the stream goes on, and is exact.

The owner has allowed their module, so they run; they are refused or fail for themselves.
"""

from __future__ import annotations

import sys
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor

import pyarrow.parquet as pq
import pytest

SOURCE = """
import sys
import time

import rechannel as rc

HAPPENED = []

def stuck():
    HAPPENED.append("loop")
    while True:
        time.sleep(0.001)

def gigabyte():
    HAPPENED.append("gigabyte")
    return ["x" * (1 << 20)] * 1024

def leave():
    HAPPENED.append("exit")
    sys.exit(3)

def fail():
    HAPPENED.append("raise")
    raise LookupError("no table")

def unlike_json():
    HAPPENED.append("nan")
    return float("nan")

DEEDS = {"loop": stuck, "gigabyte": gigabyte, "exit": leave, "raise": fail, "nan": unlike_json}

class Beginning(rc.control.Controller):
    def __init__(self, deed: str):
        self.deed = deed

    def on_init(self):
        return DEEDS[self.deed]()

class Calling(Beginning):
    def on_init(self):
        return "as it was"

    def on_begin(self, control):
        control.state = DEEDS[self.deed]()

class Replying(rc.control.OperatorHandler):
    def __init__(self, deed):
        self.deed = deed

    def on_complete(self, task):
        return DEEDS[self.deed]()

class Sending(Calling):
    def on_begin(self, control):
        return rc.control.operation(Replying(self.deed), seconds=0.3 if self.deed == "loop" else 60.0)

    def on_complete(self, control, outcome):
        control.state = {
            "replies": dict(outcome.replies),
            "failed": outcome.failed,
            "failures": [failure.error for failure in outcome.failures],
        }
"""

SAID = {
    "loop": "it took longer than",
    "gigabyte": "bytes",
    "exit": "SystemExit: 3",
    "raise": "LookupError: no table",
    "nan": "Out of range float values",
}
"""What is said about each deed."""


def seconds(deed):
    """How long a deed may take. One that ends by itself is judged by what it did, on a slow machine too."""
    return 0.3 if deed == "loop" else 60.0


@pytest.fixture
def deeds(tmp_path, monkeypatch):
    """What the controllers of the module `shop_hostile` have done."""
    folder = tmp_path / "path"
    folder.mkdir()
    (folder / "shop_hostile.py").write_text(SOURCE)
    monkeypatch.syspath_prepend(folder)
    yield lambda: sys.modules["shop_hostile"].HAPPENED
    sys.modules.pop("shop_hostile", None)


@pytest.fixture
def server(deeds, clicks):
    with clicks.running.serve(port=0, allow=["shop_hostile"]) as made:
        yield made


@pytest.fixture
def goes_on(clicks):
    """Push rows; at the end the output has the counts of exactly what was pushed."""
    pushed = Counter({"ann": 1, "bob": 1})
    for rows in ([("ann", 1), ("cleo", 2)], [("bob", 4)]):
        clicks.push(rows)
        pushed.update(user for user, _ in rows)
    yield
    for rows in ([("dan", 1), ("ann", 7)], [("zoe", 1), ("zoe", 2)]):
        clicks.push(rows)
        pushed.update(user for user, _ in rows)
    assert clicks.running.status.troubles == {}
    assert clicks.running.status.retries == 0
    clicks.running.stop()
    last: dict[str, int] = {}
    for row in pq.read_table(clicks.out).sort_by("n").to_pylist():
        last[row["user"]] = row["n"]
    assert last == dict(pushed)


def body(name, deed, **more):
    return {"path": f"shop_hostile:{name}", "parameters": {"deed": deed}, **more}


def until(look, right):
    """What there is to see, once it is right."""
    deadline = time.monotonic() + 60
    while not right(seen := look()):
        assert time.monotonic() < deadline, seen
        time.sleep(0.005)
    return seen


@pytest.mark.parametrize("deed", SAID)
def test_a_controller_that_does_it_when_it_begins_is_refused(ask, goes_on, clicks, deeds, deed):
    status, answer = ask("POST", "/controllers", body("Beginning", deed, seconds=seconds(deed)))
    assert (status, answer["error"]) == (409, "refused")
    assert "controller 'beginning' is not installed" in answer["message"]
    assert SAID[deed] in answer["message"]
    assert deeds() == [deed]
    assert ask("GET", "/controllers")[1] == {"controllers": []}


@pytest.mark.parametrize("deed", SAID)
def test_one_that_does_it_in_a_callback_is_suspended(ask, goes_on, clicks, deeds, deed, caplog):
    wanted = body("Calling", deed, seconds=seconds(deed), failures=2)
    assert ask("POST", "/controllers", wanted)[0] == 201
    for failures in (1, 2):
        assert ask("POST", "/controllers/calling/trigger")[0] == 200
        look = lambda: ask("GET", "/controllers/calling")[1]  # noqa: E731
        seen = until(look, lambda now, n=failures: now["failed"] == n)
        assert any(SAID[deed] in line for line in seen["log"])
    assert deeds() == [deed] * 2
    assert "controller 'calling' is suspended: 2 callbacks in a row have failed" in caplog.text
    assert (seen["suspended"], seen["paused"]) == (True, "2 callbacks in a row have failed")
    assert (seen["state"], seen["operation"], seen["requests"]) == ("as it was", None, 0)


@pytest.mark.parametrize("deed", SAID)
def test_handlers_that_do_it_in_tasks_are_failed_replies(ask, goes_on, clicks, deeds, deed):
    assert ask("POST", "/controllers", body("Sending", deed))[0] == 201
    assert ask("POST", "/controllers/sending/trigger")[0] == 200
    look = lambda: ask("GET", "/controllers/sending")[1]["state"]  # noqa: E731
    seen = until(look, lambda state: state != "as it was")
    assert set(deeds()) == {deed}
    assert seen["replies"] == {}
    assert seen["failed"] == len(deeds())
    assert all(SAID[deed] in failure for failure in seen["failures"])


def test_requests_of_many_at_once_are_answered(ask, goes_on, deeds):
    wanted = body("Calling", "raise")
    with ThreadPoolExecutor(5) as threads:
        asked = [threads.submit(ask, "POST", "/controllers", wanted) for _ in range(5)]
    assert sorted(each.result()[0] for each in asked) == [201, 409, 409, 409, 409]
    assert deeds() == []
