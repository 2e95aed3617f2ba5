"""Controllers over HTTP: installed by import path, watched, paused, and back after a restart."""

from __future__ import annotations

import os
import sys
import time

import pytest

from rechannel.serve.allowed import Allowed
from tests.support.asking import client_of

SOURCE = """
import os
from dataclasses import dataclass

import rechannel as rc
from rechannel.control import Controller

class Rows(rc.control.OperatorHandler):
    def on_complete(self, task):
        return task.rows_in

    def merge(self, one, other):
        return one + other

class Counting(rc.control.Controller):
    trigger = rc.control.every(timesteps=1)

    def __init__(self, operator: str, most: int = 5, words: list[str] | None = None) -> None:
        self.operator, self.most, self.words = operator, most, words

    def on_init(self):
        return {"begun": 0, "rows": 0}

    def on_begin(self, control):
        control.state = {**control.state, "begun": control.state["begun"] + 1}
        return rc.control.operation(Rows(), operators=[self.operator])

    def on_complete(self, control, outcome):
        rows = control.state["rows"] + outcome.replies.get(self.operator, 0)
        control.state = {**control.state, "rows": rows}
        control.metric("rows", rows, operator=self.operator)
        control.note(f"{rows} rows")

@dataclass
class Plain(rc.control.Controller):
    share: float
    names: dict[str, int]

class Unread(rc.control.Controller):
    def __init__(self, clock: "NoSuchName" = None):
        pass

class Picky(rc.control.Controller):
    def __init__(self, seconds: int):
        raise LookupError(f"not {seconds}")

class Refusing(rc.control.Controller):
    def __init__(self, share: float):
        raise rc.errors.RefusedError(f"share={share}: give 0 to 1")

class Odd(rc.control.Controller):
    __signature__ = "none"

class Leaving(rc.control.Controller):
    def __init__(self):
        raise SystemExit(7)

class Slow(rc.control.Controller):
    def __init__(self):
        while True:
            pass

def function():
    pass

number = 5
"""


@pytest.fixture
def package(tmp_path, monkeypatch):
    """A package of the owner's that nobody has imported: `shop_control` with `rules` and `other`."""
    folder = tmp_path / "path" / "shop_control"
    folder.mkdir(parents=True)
    (folder / "__init__.py").write_text("")
    for name in ("rules", "other"):
        (folder / f"{name}.py").write_text(SOURCE)
    (folder / "broken.py").write_text("import no_such_module_anywhere")
    (folder / "endless.py").write_text("BEGUN = True\nwhile True:\n    pass\n")
    monkeypatch.syspath_prepend(folder.parent)
    yield
    for name in imported():
        del sys.modules[name]


def imported():
    return {name for name in sys.modules if name.startswith("shop_control")}


MODULES = ["shop_control.rules", "shop_control.broken", "shop_control.endless"]


@pytest.fixture
def server(package, clicks):
    with clicks.running.serve(port=0, allow=MODULES) as made:
        yield made


def until(look, right):
    """What there is to see, once it is right."""
    deadline = time.monotonic() + 60
    while not right(seen := look()):
        assert time.monotonic() < deadline, seen
        time.sleep(0.005)
    return seen


COUNTING = {"path": "shop_control.rules:Counting", "parameters": {"operator": "users"}}


def test_a_controller_is_installed_and_watched(ask, clicks):
    assert ask("GET", "/controllers") == (200, {"controllers": []})
    status, answer = ask("POST", "/controllers", {**COUNTING, "priority": 2})
    assert status == 201
    assert (answer["name"], answer["path"]) == ("counting", "shop_control.rules:Counting")
    assert (answer["priority"], answer["parameters"]) == (2, {"operator": "users"})
    assert (answer["running"], answer["absent"], answer["paused"]) == (True, None, None)

    def after_a_timestep():
        """An operation that a timestep has triggered counts the rows of a later one."""
        clicks.push([("ann", 1), ("bob", 2), ("cleo", 3)])
        return ask("GET", "/controllers/counting")[1]

    answer = until(
        after_a_timestep,
        lambda now: (rows := now["state"]["rows"]) and f"{rows} rows" in now["log"],
    )
    rows = answer["state"]["rows"]
    assert answer["operations"] >= 1
    assert f"{rows} rows" in answer["log"]
    assert answer["metrics"] == {"rows": {"users": float(rows)}}
    (listed,) = ask("GET", "/controllers")[1]["controllers"]
    assert {*listed, "state"} == answer.keys()


def test_a_controller_is_paused_resumed_triggered_and_removed(ask, clicks):
    ask("POST", "/controllers", {**COUNTING, "name": "first"})
    status, answer = ask("POST", "/controllers/first/pause", {"reason": "lunch"})
    assert (status, answer["paused"]) == (200, "lunch")
    assert clicks.running.controllers["first"].status.paused == "lunch"
    assert ask("POST", "/controllers/first/resume", {})[1]["paused"] is None
    status, answer = ask("POST", "/controllers/first/trigger", {})
    assert (status, answer["log"][-1]) == (200, "called by hand")
    status, answer = ask("POST", "/controllers/first/remove", {})
    assert (status, answer["name"]) == (200, "first")
    assert clicks.running.controllers == {}
    for path in ("pause", "resume", "trigger", "remove"):
        status, answer = ask("POST", f"/controllers/first/{path}", {})
        assert (status, answer["error"]) == (404, "not_found")
        assert "there is no controller 'first'" in answer["message"]
    assert ask("GET", "/controllers/first")[0] == 404


@pytest.mark.parametrize(
    "path",
    [
        "os:system",
        "shop_control.other:Counting",
        "shop_control:Counting",
        "shop_control.rules:os.system",
        "shop_control.rules:Controller",
        "shop_control.rules:rc.control.Controller",
        "shop_control.rules:Counting.__init__",
        "shop_control.rules:",
        "shop_control.rules",
        "shop_control.rules_too:Counting",
        "tests.unit.serve.shop:Any",
        "__main__:Any",
        "antigravity:Any",
    ],
)
def test_what_is_not_allowed_is_forbidden(ask, clicks, path):
    before = set(sys.modules)
    status, answer = ask("POST", "/controllers", {"path": path})
    assert (status, answer["error"]) == (403, "forbidden")
    assert imported() <= {"shop_control", "shop_control.rules"}
    assert "antigravity" not in set(sys.modules) - before
    if not path.startswith("shop_control.rules:"):
        assert imported() == set()
    assert clicks.running.controllers == {}


@pytest.mark.parametrize(
    ("body", "status", "said"),
    [
        ({"path": "shop_control.rules:function"}, 409, "is no controller"),
        ({"path": "shop_control.rules:number"}, 409, "cannot be called"),
        ({"path": "shop_control.rules:Nothing"}, 409, "there is no 'Nothing'"),
        ({"path": "shop_control.broken:Any"}, 409, "no_such_module_anywhere"),
        ({"path": "shop_control.rules:Unread"}, 409, "NoSuchName"),
        ({"path": "shop_control.rules:Leaving"}, 409, "SystemExit: 7"),
        ({"path": "shop_control.rules:Odd"}, 409, "annotations of shop_control.rules:Odd"),
        ({"path": "shop_control.rules:Slow", "seconds": 0.1}, 409, "it took longer than 0.1 s"),
        (
            {"path": "shop_control.rules:Picky", "parameters": {"seconds": 3}},
            409,
            "LookupError: not 3",
        ),
        ({"path": COUNTING["path"]}, 409, "operator: is missing"),
        ({**COUNTING, "parameters": {"operator": 5}}, 409, "operator: Expected `str`, got `int`"),
        ({**COUNTING, "parameters": {"operator": "a", "most": "5"}}, 409, "Expected `int`"),
        ({**COUNTING, "parameters": {"operator": "a", "most": True}}, 409, "Expected `int`"),
        ({**COUNTING, "parameters": {"operator": "a", "words": [1]}}, 409, "Expected `str`"),
        ({**COUNTING, "parameters": {"operator": "a", "mist": 5}}, 409, "no such parameter"),
        ({**COUNTING, "parameters": {"operator": "a", "self": 5}}, 409, "no such parameter"),
        ({**COUNTING, "parameters": {"operator": "x" * 70_000}}, 409, "more than 65,536 bytes"),
        ({**COUNTING, "parameters": {f"p{n}": n for n in range(101)}}, 422, "parameters"),
        (
            {"path": "shop_control.rules:Plain", "parameters": {"share": "x", "names": {"a": "b"}}},
            409,
            "share: Expected `float`, got `str`; names: Expected `int`, got `str`",
        ),
        ({**COUNTING, "name": "no name"}, 422, "name"),
        ({**COUNTING, "name": ""}, 422, "name"),
        ({**COUNTING, "name": "a/../b"}, 422, "name"),
        ({**COUNTING, "name": "x" * 101}, 422, "name"),
        ({**COUNTING, "seconds": 0}, 422, "seconds"),
        ({**COUNTING, "seconds": 1e9}, 422, "seconds"),
        ({**COUNTING, "failures": 0}, 422, "failures"),
        ({**COUNTING, "priority": 1e99}, 422, "priority"),
        ({**COUNTING, "prority": 1}, 422, "prority"),
        ({}, 422, "path"),
        ({"path": 5}, 422, "path"),
    ],
    ids=str,
)
def test_what_is_wrong_is_refused_with_the_reason(ask, clicks, body, status, said):
    answered, answer = ask("POST", "/controllers", body)
    assert (answered, answer["error"]) == (status, "refused" if status == 409 else "malformed")
    assert said in answer["message"]
    assert clicks.running.controllers == {}
    clicks.push([("ann", 1)])
    assert clicks.running.is_active


def test_a_refusal_of_the_constructor_is_told_in_its_own_words(ask):
    body = {"path": "shop_control.rules:Refusing", "parameters": {"share": 2}}
    told = {"error": "refused", "message": "share=2.0: give 0 to 1"}
    assert ask("POST", "/controllers", body) == (409, told)


def test_a_module_that_does_not_end_its_import_is_refused(ask, clicks, monkeypatch):
    monkeypatch.setattr("rechannel.control.loading.IMPORT_SECONDS", 0.5)
    status, answer = ask("POST", "/controllers", {"path": "shop_control.endless:Any"})
    assert (status, answer["error"]) == (409, "refused")
    assert "'shop_control.endless:Any' cannot be imported: it took longer" in answer["message"]
    assert "shop_control.endless" not in sys.modules
    clicks.push([("ann", 1)])


def test_parameters_of_dataclasses_are_converted(ask, clicks):
    body = {"path": "shop_control.rules:Plain", "parameters": {"share": 0.5, "names": {"a": 1}}}
    assert ask("POST", "/controllers", body)[0] == 201
    status, answer = ask("POST", "/controllers", body)
    assert (status, answer["error"]) == (409, "refused")
    assert "there is a controller 'plain' already" in answer["message"]


def test_there_are_not_too_many(ask, clicks, monkeypatch):
    monkeypatch.setattr("rechannel.engine.control.host.MOST_CONTROLLERS", 2)
    for name in ("one", "two"):
        assert ask("POST", "/controllers", {**COUNTING, "name": name})[0] == 201
    status, answer = ask("POST", "/controllers", {**COUNTING, "name": "three"})
    assert (status, answer["error"]) == (409, "refused")
    assert "at most 2 controllers" in answer["message"]


def test_a_job_that_has_ended_has_no_more_controllers(ask, clicks):
    ask("POST", "/controllers", COUNTING)
    clicks.running.stop()
    assert ask("GET", "/controllers")[0] == 200
    for path in ("/controllers", "/controllers/counting/pause", "/controllers/counting/remove"):
        body = COUNTING if path == "/controllers" else {}
        status, answer = ask("POST", path, body)
        assert (status, answer["error"]) == (410, "ended")


# Restarts -----------------------------------------------------------------------------------------


def installed(clicks):
    """The state of a controller that was installed over HTTP, once its job has stopped."""
    serving = clicks.running.serve(port=0, allow=["shop_control.rules"])
    with serving as server, client_of(server) as client:
        assert client.post("/controllers", json=COUNTING).status_code == 201
        clicks.push([("ann", 1), ("bob", 2)])
        clicks.push([("ann", 1)])
    clicks.running.stop()
    return clicks.running.controllers["counting"].state


def begun_after(before):
    return lambda now: now["begun"] > before["begun"]


def test_without_its_module_a_controller_is_absent_and_says_so(package, clicks):
    before = installed(clicks)
    running = clicks.start()
    clicks.push([("ann", 1)])
    assert "name it in rc.Job(allow=...)" in str(running.controllers["counting"].status.absent)
    with (
        running.serve(port=0, allow=["somewhere.different"]) as server,
        client_of(server) as client,
    ):
        answer = client.get("/controllers/counting").json()
    assert answer["running"] is False
    assert "'shop_control.rules:Counting' may not be loaded" in answer["absent"]
    assert answer["state"] == before


def test_served_with_its_module_it_comes_back(package, clicks):
    before = installed(clicks)
    running = clicks.start()
    clicks.push([("ann", 1)])
    assert not running.controllers["counting"].status.running
    with running.serve(port=0, allow=["shop_control"]) as server, client_of(server) as client:
        assert client.get("/controllers/counting").json()["absent"] is None
        clicks.push([("ann", 1)])
        seen = until(
            lambda: client.get("/controllers/counting").json()["state"], begun_after(before)
        )
        assert seen["rows"] >= before["rows"]
    assert running.readmit(Allowed(modules=("shop_control",)).controller) == ()


def test_a_job_that_allows_its_module_has_it_from_the_start(package, clicks):
    before = installed(clicks)
    clicks.allow = ("shop_control.rules",)
    clicks.start()
    clicks.push([("ann", 1)])
    assert clicks.running.controllers["counting"].status.running
    until(lambda: clicks.running.controllers["counting"].state, begun_after(before))
    with clicks.running.serve(port=0) as server, client_of(server) as client:
        body = {**COUNTING, "name": "other"}
        assert client.post("/controllers", json=body).status_code == 201


def test_one_whose_module_has_gone_bad_says_why_and_keeps_no_stream_from_starting(
    package, clicks, tmp_path
):
    before = installed(clicks)
    for name in imported():
        del sys.modules[name]
    source = tmp_path / "path" / "shop_control" / "rules.py"
    source.write_text(SOURCE.replace("operator: str,", "operator: int,"))
    # Python goes by seconds and size, which are the same, to know whether what it has compiled is of this text.
    later = source.stat().st_mtime + 10
    os.utime(source, (later, later))
    running = clicks.start()
    with running.serve(port=0, allow=["shop_control.rules"]):
        status = running.controllers["counting"].status
        assert not status.running
        assert "it cannot be made again" in str(status.absent)
        assert "operator: Expected `int`, got `str`" in str(status.absent)
        clicks.push([("ann", 1)])
        assert running.controllers["counting"].state == before


def test_what_a_program_made_is_not_made_again_from_its_path(package, clicks):
    from shop_control.rules import Counting

    clicks.running.control(Counting("users"))
    clicks.running.stop()
    running = clicks.start()
    with running.serve(port=0, allow=["shop_control.rules"]):
        status = running.controllers["counting"].status
        assert (status.running, status.parameters) == (False, None)
        assert "give it to rc.Job(controllers=...)" in str(status.absent)
