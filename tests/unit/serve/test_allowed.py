"""Which functions may be named from outside, and what is imported to find out."""

from __future__ import annotations

import sys

import pytest

from rechannel.errors import DataflowError, RefusedError
from rechannel.reconfigure.changes.program import AssignLogic
from rechannel.reconfigure.changes.tasks import Rescale
from rechannel.reconfigure.changes.together import Together
from rechannel.reconfigure.edits import ChangeLogic
from rechannel.serve.allowed import Allowed
from rechannel.serve.failures import ForbiddenError
from tests.support.asking import client_of

SOURCE = """
import os
from subprocess import call

def keep(row):
    return row["ms"] > 1

class Rules:
    @staticmethod
    def keep(row):
        return True

system = os.system
number = 5

def above(ms: int):
    def total(user, state, rows):
        return (state or 0) + sum(each for each in rows["ms"] if each > ms)
    return total
"""


@pytest.fixture
def package(tmp_path, monkeypatch):
    """A package of the owner's that nobody has imported: `shop_rules` with `logic` and `other`."""
    folder = tmp_path / "path" / "shop_rules"
    folder.mkdir(parents=True)
    (folder / "__init__.py").write_text("")
    for name in ("logic", "other", "__main__"):
        (folder / f"{name}.py").write_text(SOURCE)
    (folder.parent / "shop_rules_too.py").write_text(SOURCE)
    monkeypatch.syspath_prepend(folder.parent)
    yield
    for name in imported():
        del sys.modules[name]


def imported():
    return {name for name in sys.modules if name.startswith("shop_rules")}


def assign(function):
    return AssignLogic(operator="users", function=function)


@pytest.mark.parametrize(
    ("modules", "path"),
    [
        ((), "shop_rules.logic:keep"),
        (("shop_rules.logic",), "shop_rules.other:keep"),
        (("shop_rules.logic",), "shop_rules:keep"),
        (("shop_rules",), "shop_rules_too:keep"),
        (("shop_rules",), "subprocess:call"),
        (("shop_rules",), "shop_rules.:keep"),
        (("shop_rules",), "shop_rules..logic:keep"),
        (("shop_rules",), ".shop_rules:keep"),
        (("shop_rules",), "shop_rules.__main__:keep"),
        (("shop_rules",), "shop_rules.logic:keep.__globals__"),
        (("shop_rules",), "shop_rules.logic:__builtins__"),
        (("shop_rules",), "shop_rules.logic:"),
        (("shop_rules",), "shop_rules.logic"),
        (("shop_rules",), "shop_rules.logic:keep:keep"),
        (("shop_rules",), "shop_rules/logic:keep"),
        (("shop_rules",), "shop_rules.l\u043egic:keep"),
        (("shop_rules",), "SHOP_RULES.logic:keep"),
    ],
)
@pytest.mark.parametrize("how", ["loaded", "loaded_already"])
def test_what_is_not_allowed_is_refused_before_anything_is_imported(package, modules, path, how):
    change = assign("a:b")
    object.__setattr__(change, "function", path)  # as if its check had let it pass
    with pytest.raises(ForbiddenError, match="may not be loaded"):
        getattr(Allowed(modules=modules), how)(change)
    assert not imported()


def test_one_that_is_not_allowed_keeps_all_others_from_being_imported(package):
    both = Together(changes=(assign("shop_rules.logic:keep"), assign("os:system")))
    with pytest.raises(ForbiddenError, match="'os:system'"):
        Allowed(modules=("shop_rules",)).loaded(both)
    assert not imported()


@pytest.mark.parametrize(
    "path", ["shop_rules.logic:os.system", "shop_rules.logic:call", "shop_rules.logic:system"]
)
def test_what_an_allowed_module_only_has_from_elsewhere(package, path):
    with pytest.raises(ForbiddenError, match="name it in the module"):
        Allowed(modules=("shop_rules",)).loaded(assign(path))


def test_what_is_no_function(package):
    with pytest.raises(DataflowError, match="cannot be called"):
        Allowed(modules=("shop_rules",)).loaded(assign("shop_rules.logic:number"))


def test_allowed_functions_are_imported_to_change_and_not_to_plan(package):
    allowed = Allowed(modules=("shop_rules.logic",))
    rescale = Rescale(operator="users", tasks=3)
    change = Together(changes=(assign("shop_rules.logic:keep"), rescale))
    with pytest.raises(DataflowError, match="a plan imports nothing"):
        allowed.loaded_already(change)
    assert not imported()
    logic, other = allowed.loaded(change)
    assert isinstance(logic, ChangeLogic)
    assert logic.logic is sys.modules["shop_rules.logic"].keep
    assert other == rescale
    assert allowed.loaded_already(change)[0].logic is logic.logic
    nested = allowed.loaded(assign("shop_rules.logic:Rules.keep"))[0]
    assert nested.logic.__qualname__ == "Rules.keep"


@pytest.mark.parametrize(
    "modules",
    [("",), ("shop.",), ("..",), ("*",), ("shop:f",), ("__main__",), (5,), ("shop/logic",)],
)
def test_what_is_no_module(modules):
    with pytest.raises(RefusedError, match="give names of modules"):
        Allowed(modules=modules)


@pytest.mark.parametrize("route", ["/plan", "/reconfigure"])
def test_over_http_nothing_is_allowed_that_the_owner_did_not_allow(package, server, route):
    change = {"kind": "assign_logic", "operator": "users", "function": "shop_rules.logic:keep"}
    with client_of(server) as client:
        answer = client.post(route, json={"change": change})
    assert (answer.status_code, answer.json()["error"]) == (403, "forbidden")
    assert "job.serve(allow=['package.module'])" in answer.json()["message"]
    assert not imported()


def test_over_http_what_was_allowed(package, clicks):
    allowed = clicks.running.serve(port=0, allow=["shop_rules.logic"])
    change = {"kind": "assign_logic", "operator": "totals", "function": "shop_rules.logic:keep"}
    with allowed as server, client_of(server) as client:
        plan = client.post("/plan", json={"change": change})
        assert (plan.status_code, plan.json()["error"]) == (409, "refused")
        assert not imported()
        # Its shape is another than that of the operator's function: the job says so, having imported it.
        client.post("/reconfigure", json={"change": change})
        assert "shop_rules.logic" in imported()


def test_over_http_a_factory_with_parameters(package, clicks):
    allowed = clicks.running.serve(port=0, allow=["shop_rules.logic"])
    change = {"kind": "assign_logic", "operator": "totals", "function": "shop_rules.logic:above"}
    with allowed as server, client_of(server) as client:
        wrong = client.post("/reconfigure", json={"change": change | {"parameters": {"ms": "2"}}})
        assert (wrong.status_code, wrong.json()["error"]) == (409, "refused")
        assert "ms: Expected `int`, got `str`" in wrong.json()["message"]
        large = client.post(
            "/reconfigure", json={"change": change | {"parameters": {"ms": [1] * 300_000}}}
        )
        assert large.status_code == 422
        assert "more than 262,144 bytes as JSON" in large.text
        other = change | {"function": "os:getenv", "parameters": {"key": "HOME"}}
        assert client.post("/reconfigure", json={"change": other}).status_code == 403
        right = change | {"parameters": {"ms": 20}}
        assert client.post("/plan", json={"change": right}).status_code == 200
        asked = client.post("/reconfigure", json={"change": right})
        assert asked.status_code == 202
    clicks.job_running.reconfiguration(asked.json()["id"]).wait(60)
    (summary,) = clicks.job_running.history()
    text = "assign_logic('totals', 'shop_rules.logic:above', parameters={\"ms\": 20})"
    assert summary.change == text
