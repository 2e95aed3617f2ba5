"""Every route, against a job that runs."""

from __future__ import annotations

import json
import time

import pytest

from rechannel.model.codec import encode
from tests.support.asking import client_of, get

RESCALE = {"kind": "rescale", "operator": "users", "tasks": 4}


def test_status(ask, clicks):
    status, answer = ask("GET", "/status")
    assert status == 200
    assert {key: answer[key] for key in ("name", "active", "message", "timestep")} == {
        "name": "clicks", "active": True, "message": "running", "timestep": 1,
    }  # fmt: skip
    assert answer["configuration"] == clicks.running.configuration.version
    assert answer["operators"]["clicks"]["bins"] is None
    assert answer["operators"]["users"]["tasks"] == 2
    assert answer["sources"] == {"clicks": clicks.running.committed_offset("clicks")}


def test_configuration(ask, clicks):
    assert ask("GET", "/configuration") == (200, encode(clicks.running.configuration))


def test_progress(ask, clicks):
    clicks.push([("cleo", 3)])
    status, answer = ask("GET", "/progress")
    assert status == 200
    assert answer["last"]["timestep"] == 2
    assert [facts["timestep"] for facts in answer["recent"]] == [1, 2]
    assert [f["timestep"] for f in ask("GET", "/progress?recent=1")[1]["recent"]] == [2]
    assert ask("GET", "/progress?recent=0")[1]["recent"] == []
    for wrong in ("-1", "x", "1001", "1e3", "9" * 5000):
        status, answer = ask("GET", f"/progress?recent={wrong}")
        assert (status, answer["error"]) == (422, "malformed")
        assert "recent" in answer["message"]


def test_progress_after_a_timestep(ask, clicks):
    for user in ("cleo", "dan"):
        clicks.push([(user, 3)])

    def numbers(query):
        return [facts["timestep"] for facts in ask("GET", f"/progress?{query}")[1]["recent"]]

    assert numbers("after=0") == [1, 2, 3]
    assert numbers("after=1&recent=1") == [3]
    assert numbers("after=3") == []
    assert ask("GET", "/progress?after=3")[1]["last"]["timestep"] == 3
    assert ask("GET", "/progress?after=-1")[0] == 422


def test_what_is_drawn(ask, clicks):
    assert ask("GET", "/dataflow")[1]["nodes"] == [
        {"name": "clicks", "kind": "source", "upstreams": [], "keys": []},
        {"name": "users", "kind": "aggregate", "upstreams": ["clicks"], "keys": ["user"]},
        {"name": "totals", "kind": "track", "upstreams": ["clicks"], "keys": ["user"]},
        {"name": "out", "kind": "sink", "upstreams": ["users"], "keys": []},
    ]
    status, answer = ask("GET", "/bins")
    assert status == 200
    assert answer["operators"].keys() == {"users", "totals"}
    assert answer["operators"]["users"]["owners"] == list(
        clicks.running.configuration.operators["users"].routing.owners
    )
    assert sum(answer["operators"]["users"]["bytes"]) > 0
    assert ask("GET", "/sinks")[1]["sinks"]["out"]["owed"] == 0
    status, answer = ask("GET", "/flow")
    assert status == 200
    assert answer["flow"].keys() == {"first", "last", "seconds", "rows", "critical", "unknown"}


def test_bins_say_where_an_open_reconfiguration_moves_them(busy):
    _, server = busy
    asked = {
        "change": {**RESCALE, "operator": "counts"},
        "strategy": {"kind": "fluid", "bins": 8, "gap": 5},
    }
    with client_of(server) as client:
        before = client.get("/bins").json()["operators"]["counts"]
        assert (before["tasks"], before["moving"]) == (2, [])
        plan = client.post("/plan", json=asked).json()
        id_ = client.post("/reconfigure", json=asked).json()["id"]
        seen, moved = [], None
        while client.get(f"/reconfigurations/{id_}").json()["open"]:
            seen.append(client.get("/bins").json()["operators"]["counts"])
        moved = client.get("/bins").json()["operators"]["counts"]
    wanted = dict(pair for one in seen for pair in map(tuple, one["moving"]))
    assert any(one["moving"] for one in seen)
    assert len(wanted) <= sum(one["bins"] for one in plan["affected"])
    assert set(wanted.values()) <= {0, 1, 2, 3}
    assert all(moved["owners"][bin_] == task for bin_, task in wanted.items())
    assert (moved["tasks"], moved["moving"]) == (4, [])


def test_advice(ask, clicks):
    for _ in range(5):
        clicks.clock[0] += 1_000
        clicks.push([("cleo", 3), ("dan", 4)])
    hub, until = clicks.running._hub, time.monotonic() + 60
    while [each.timestep for each in hub.recent_tasks] != [1, 2, 3, 4, 5, 6]:
        assert time.monotonic() < until, hub.recent_tasks
        time.sleep(0.02)  # tasks are known up to a second after their timestep
    asked = {"policy": "ds2", "window": 2.0, "rate": 5_000_000.0}
    status, answer = ask("GET", "/advice?policy=ds2&window=2&rate=5000000")
    assert status == 200
    assert answer == json.loads(json.dumps(clicks.running.advice(**asked).to_dict()))
    assert answer["needs"]["policy"] == "ds2"
    status, answer = ask("GET", "/advice?policy=magic")
    assert (status, answer["error"]) == (409, "refused")
    for wrong in ("rate=0", "utilisation=2", "window=x", "magic=1"):
        assert ask("GET", f"/advice?{wrong}")[0] == 422


def test_before_the_first_timestep_there_is_no_progress(tmp_path):
    from tests.support.clicks import Clicks

    made = Clicks(directory=tmp_path / "state", out=tmp_path / "out")
    running = made.start()
    with running.serve(port=0) as server:
        answer = get(server, "/progress").json()
        assert get(server, "/metrics").status_code == 200
    running.stop()
    assert answer == {"last": None, "recent": []}


def test_a_plan_changes_nothing(ask, clicks):
    before = clicks.running.configuration
    status, answer = ask("POST", "/plan", {"change": RESCALE, "strategy": {"kind": "fluid"}})
    assert status == 200
    assert answer["change"] == RESCALE
    assert (len(answer["steps"]), answer["affected"][0]["bins"]) == (128, 128)
    assert clicks.running.configuration == before
    assert clicks.running.history() == []


def test_a_change_is_made(ask, clicks):
    assert ask("POST", "/reconfigure", {"change": RESCALE, "cause": "a test"}) == (
        202,
        {"id": "r1"},
    )
    clicks.push([("ann", 1)])
    status, answer = ask("GET", "/reconfigurations/r1")
    assert status == 200
    assert (answer["phase"], answer["open"], answer["cause"]) == ("done", False, "a test")
    assert (answer["bins"], answer["bins_left"]) == (128, 0)
    assert clicks.running.configuration.operators["users"].tasks == 4


def test_several_changes_are_one(ask, clicks):
    changes = [RESCALE, {"kind": "set_in_flight", "timesteps": 2}]
    assert ask("POST", "/reconfigure", {"changes": changes})[0] == 202
    clicks.push([("ann", 1)])
    assert clicks.running.configuration.in_flight == 2
    assert clicks.running.configuration.operators["users"].tasks == 4


def test_a_plan_is_replayed_once(ask, clicks):
    _, plan = ask("POST", "/plan", {"change": RESCALE})
    assert ask("POST", "/reconfigure", {"plan": plan})[0] == 202
    clicks.push([("ann", 1)])
    assert clicks.running.configuration.operators["users"].tasks == 4
    status, answer = ask("POST", "/reconfigure", {"plan": plan})
    assert (status, answer["error"]) == (409, "refused")
    assert "plan again" in answer["message"]


def test_a_change_for_later_is_aborted(ask, clicks):
    assert ask("POST", "/reconfigure", {"change": RESCALE, "at": 1000})[0] == 202
    open_ = ask("GET", "/reconfigurations?open=true")[1]["reconfigurations"]
    assert [(one["id"], one["open"], one["bins_left"]) for one in open_] == [("r1", True, 0)]
    status, answer = ask("POST", "/reconfigurations/r1/abort", {"reason": "second thoughts"})
    assert (status, answer["phase"], answer["reason"]) == (200, "aborted", "second thoughts")
    status, answer = ask("POST", "/reconfigurations/r1/abort", {})
    assert (status, answer["error"]) == (409, "refused")
    assert ask("GET", "/reconfigurations?open=true")[1] == {"reconfigurations": []}
    assert clicks.running.configuration.operators["users"].tasks == 2


def test_a_change_takes_the_place_of_another(ask, clicks):
    later = {"change": RESCALE, "at": 1000}
    ask("POST", "/reconfigure", later)
    assert ask("POST", "/reconfigure", {**later, "at": 1001, "supersede": True})[1] == {"id": "r2"}
    _, history = ask("GET", "/reconfigurations")
    phases = [one["phase"] for one in history["reconfigurations"]]
    assert phases[0] == "superseded"
    assert len(phases) == 2
    _, history = ask("GET", "/reconfigurations?last=1")
    assert [one["id"] for one in history["reconfigurations"]] == ["r2"]
    for wrong in ("0", "10001", "x"):
        assert ask("GET", f"/reconfigurations?last={wrong}")[0] == 422


def test_a_change_under_way_is_led_back(busy):
    job, server = busy
    with client_of(server) as client:
        slow = {"kind": "fluid", "gap": 3}
        change = {"kind": "rescale", "operator": "counts", "tasks": 8}
        id_ = client.post("/reconfigure", json={"change": change, "strategy": slow}).json()["id"]
        deadline = time.monotonic() + 60
        while (facts := client.get(f"/reconfigurations/{id_}").json())["bins"] < 2:
            assert time.monotonic() < deadline
            time.sleep(0.01)
        assert (facts["phase"], facts["open"]) == ("moving", True)
        assert facts["bins_left"] > 0
        assert client.post(f"/reconfigurations/{id_}/abort", json={}).json()["phase"] == "reversing"
        while client.get(f"/reconfigurations/{id_}").json()["open"]:
            assert time.monotonic() < deadline
            time.sleep(0.01)
        assert client.get(f"/reconfigurations/{id_}").json()["phase"] == "undone"
    assert job.configuration.operators["counts"].tasks == 2


@pytest.mark.parametrize(
    ("change", "status", "kind"),
    [
        ({**RESCALE, "operator": "nobody"}, 404, "unknown_operator"),
        ({**RESCALE, "tasks": 10**9}, 409, "refused"),
        ({**RESCALE, "tasks": 10**19}, 409, "refused"),
        ({**RESCALE, "tasks": 257}, 409, "refused"),
        ({"kind": "move", "operator": "users", "bins": [10**19], "task": 0}, 409, "refused"),
        ({"kind": "move", "operator": "clicks", "bins": [0], "task": 0}, 409, "refused"),
        ({"kind": "set_bound", "source": "nobody", "most": 1}, 409, "refused"),
        ({"kind": "place", "operator": "users", "task": 9, "executor": None}, 409, "refused"),
        (
            {
                "kind": "assign_workload",
                "operator": "users",
                "starts": [5],
                "owners": [0],
                "tasks": 1,
            },
            409,
            "refused",
        ),
        (
            {"kind": "assign_logic", "operator": "users", "function": "no.such:thing"},
            403,
            "forbidden",
        ),
        ({"kind": "assign_logic", "operator": "users", "function": "import os"}, 422, "malformed"),
        ({"kind": "rescale", "operator": 5, "tasks": 1}, 422, "malformed"),
    ],
    ids=str,
)
@pytest.mark.parametrize("route", ["/plan", "/reconfigure"])
def test_what_is_refused_has_not_happened(ask, clicks, route, change, status, kind):
    before = clicks.running.configuration
    answered, answer = ask("POST", route, {"change": change})
    assert (answered, answer["error"]) == (status, kind), answer
    assert answer["message"]
    clicks.push([("ann", 1)])
    assert clicks.running.configuration == before
    assert clicks.running.history() == []


def test_what_is_not_there(ask):
    for method, path in (
        ("GET", "/reconfigurations/r1"),
        ("GET", "/reconfigurations/%2e%2e"),
        ("POST", "/reconfigurations/r1/abort"),
        ("GET", "/nowhere"),
        ("GET", "/status/"),
    ):
        status, answer = ask(method, path, {} if method == "POST" else None)
        assert (status, answer["error"]) == (404, "not_found"), path
    status, answer = ask("POST", "/status", {})
    assert (status, answer["error"]) == (405, "not_allowed")


def test_parameters_that_there_are_not(ask):
    for path in ("/progress?recnt=5", "/status?x=1", "/reconfigurations?Open=true&last=1"):
        status, answer = ask("GET", path)
        assert (status, answer["error"]) == (422, "malformed"), path
        assert "there is no parameter" in answer["message"]


def test_a_method_that_is_not_for_a_route_is_told_which_are(server):
    with client_of(server) as client:
        for method, path, allowed in (
            ("POST", "/status", "GET"),
            ("DELETE", "/reconfigurations/r1", "GET"),
            ("GET", "/plan", "POST"),
            ("PUT", "/reconfigure", "POST"),
        ):
            answer = client.request(method, path)
            assert (answer.status_code, answer.json()["error"]) == (405, "not_allowed")
            assert answer.headers["allow"] == allowed


def test_timesteps_that_are_over_are_refused(ask):
    status, answer = ask("POST", "/reconfigure", {"change": RESCALE, "at": 0})
    assert (status, answer["error"]) == (409, "refused")
    assert "has already begun" in answer["message"]


def test_a_job_that_has_ended_says_so(ask, clicks):
    clicks.running.stop()
    assert ask("GET", "/status")[1]["active"] is False
    for path in ("/plan", "/reconfigure", "/reconfigurations/r1/abort"):
        body = {} if path.endswith("abort") else {"change": RESCALE}
        status, answer = ask("POST", path, body)
        assert (status, answer["error"]) == (410, "ended")
        assert "start it again" in answer["message"]


def test_the_document_tells_of_every_route_and_body(ask):
    _, document = ask("GET", "/openapi.json")
    schemas = document["components"]["schemas"]
    for path, methods in document["paths"].items():
        for method in methods.values():
            assert method["summary"], path
    for path, body in (
        ("/plan", "PlanBody"),
        ("/reconfigure", "ReconfigureBody"),
        ("/reconfigurations/{id}/abort", "AbortBody"),
        ("/controllers", "InstallBody"),
        ("/controllers/{name}/pause", "PauseBody"),
        ("/controllers/{name}/remove", "EmptyBody"),
    ):
        told = document["paths"][path]["post"]["requestBody"]["content"]["application/json"]
        assert told["schema"] == {"$ref": f"#/components/schemas/{body}"}
        assert body in schemas
    assert schemas["Failure"]["required"] == ["error", "message"]
    wanted = {ref.rpartition("/")[2] for ref in _references(document)}
    assert wanted <= schemas.keys()


def _references(value):
    if isinstance(value, dict):
        yield from [value["$ref"]] if isinstance(value.get("$ref"), str) else []
        for part in value.values():
            yield from _references(part)
    elif isinstance(value, list):
        for part in value:
            yield from _references(part)
