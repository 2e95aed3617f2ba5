"""Alert rules and dashboard ask for what a server exposes. `tests/real/test_prometheus.py` runs them."""

from __future__ import annotations

import json
import re
from pathlib import Path
from types import SimpleNamespace

import pytest
import yaml
from prometheus_client.core import HistogramMetricFamily

import rechannel as rc
from rechannel import aggregates as agg
from rechannel.job import InProcess
from rechannel.serve.metrics import JobCollector
from rechannel.testing import script

DEPLOY = Path(__file__).parents[3] / "deploy"
RULES = yaml.safe_load((DEPLOY / "prometheus" / "rules.yml").read_text())
TESTS = yaml.safe_load((DEPLOY / "prometheus" / "rules_test.yml").read_text())
DASHBOARD = json.loads((DEPLOY / "grafana" / "rechannel.json").read_text())
SUFFIXES = {"counter": ("_total",), "histogram": ("_bucket", "_sum", "_count"), "gauge": ("",)}
DOCS = DEPLOY.parent / "docs"
TABLES = {"rechannel_marks"}
"""Names on pages that are tables of PostgreSQL."""
EVERYWHERE = {"instance", "job"}
"""Labels that Prometheus gives to every sample."""


@pytest.fixture(scope="module")
def labels(tmp_path_factory):
    """Labels by the name of a sample, of everything that a server exposes."""
    flow = rc.read().memory(script("k STRING"), name="rows").key_by("k").aggregate(n=agg.count())
    state = tmp_path_factory.mktemp("job") / "state"
    job = rc.Job("shop", flow, state=state).start(in_process=InProcess())
    families = list(JobCollector(job).collect())
    job.stop()
    return {
        f"{family.name}{suffix}": {
            *family._labelnames,
            *(["le"] if isinstance(family, HistogramMetricFamily) else []),
        }
        for family in families
        for suffix in SUFFIXES[family.type]
    }


def rules():
    return [rule for group in RULES["groups"] for rule in group["rules"]]


def targets():
    return [
        SimpleNamespace(panel=panel["title"], expr=each["expr"], legend=each["legendFormat"])
        for panel in DASHBOARD["panels"]
        for each in panel.get("targets", ())
    ]


def metrics(expression):
    return set(re.findall(r"\brechannel_\w+", expression))


def asked(expression):
    """Labels that an expression selects or groups by."""
    chosen = re.findall(r"(\w+)\s*(?:=~|!~|!=|=)\s*\"", expression)
    grouped = re.findall(r"\b(?:by|on|without|ignoring)\s*\(([^)]*)\)", expression)
    return {*chosen, *(name.strip() for part in grouped for name in part.split(","))}


def check(labels, expression, shown):
    names = metrics(expression)
    assert names, expression
    assert names <= labels.keys(), f"{expression}: the server has no {names - labels.keys()}"
    for name in names:
        missing = (asked(expression) | shown) - labels[name] - EVERYWHERE
        assert not missing, f"{expression}: {name} has no label {missing}"


def test_rules_ask_for_what_there_is(labels):
    for rule in rules():
        if rule["expr"].startswith("up{"):
            continue
        shown = set(re.findall(r"\$labels\.(\w+)", rule["annotations"]["summary"]))
        check(labels, rule["expr"], shown)


def test_the_dashboard_asks_for_what_there_is(labels):
    for target in targets():
        check(labels, target.expr, set(re.findall(r"{{(\w+)}}", target.legend)))
    for each in DASHBOARD["annotations"]["list"]:
        check(labels, each["expr"], set())
    (job,) = (each for each in DASHBOARD["templating"]["list"] if each["name"] == "job")
    assert metrics(job["definition"]) <= labels.keys()


def written(page):
    """Every rule in the YAML of a page."""
    found = []
    for block in re.findall(r"^```yaml\n(.*?)^```", page.read_text(encoding="utf-8"), re.M | re.S):
        parsed = yaml.safe_load(block)
        if isinstance(parsed, dict):
            found += [rule for group in parsed.get("groups", ()) for rule in group["rules"]]
    return found


def test_rules_of_the_docs_ask_for_what_there_is(labels):
    rules_by_page = {page.name: written(page) for page in sorted(DOCS.rglob("*.md"))}
    assert len(rules_by_page["http.md"]) >= 2
    for rule in [rule for found in rules_by_page.values() for rule in found]:
        summary = rule.get("annotations", {}).get("summary", "")
        any_of = set.union(*(labels[name] for name in metrics(rule["expr"]) & labels.keys()), set())
        check(labels, rule["expr"], set())
        assert set(re.findall(r"\$labels\.(\w+)", summary)) <= any_of | EVERYWHERE


def test_no_page_names_a_metric_that_is_gone(labels):
    families = {
        family
        for name in labels
        for family in (name, re.sub("_(total|bucket|sum|count)$", "", name))
    }
    for page in [*sorted(DOCS.rglob("*.md")), DEPLOY.parent / "README.md"]:
        named = set(
            re.findall(r"(?<![\w./-])rechannel_[a-z_]+\w", page.read_text(encoding="utf-8"))
        )
        unknown = {name for name in named if name not in families and not name.endswith("_")}
        assert unknown <= TABLES, (page, unknown)


def test_what_is_not_there_would_be_found(labels):
    with pytest.raises(AssertionError, match=r"has no {'rechannel_gone'}"):
        check(labels, "rechannel_gone > 1", set())
    with pytest.raises(AssertionError, match=r"has no label {'sink'}"):
        check(labels, 'rechannel_source_lag_seconds{sink="a"} > 1', set())
    with pytest.raises(AssertionError, match=r"has no label {'task'}"):
        check(labels, "sum by (source, task) (rechannel_source_lag_seconds)", set())


def test_every_alert_says_what_to_do_and_is_tested():
    names = [rule["alert"] for rule in rules()]
    assert len(set(names)) == len(names)
    for rule in rules():
        assert rule["labels"]["severity"] in {"page", "ticket"}
        assert rule["annotations"].keys() == {"summary", "action"}
    fired = json.dumps([test["promql_expr_test"] for test in TESTS["tests"]])
    assert {name for name in names if f'\\"{name}\\"' not in fired} == set()


def test_panels_have_their_place():
    """Ids are unique, and no two panels overlap."""
    panels = DASHBOARD["panels"]
    assert len({panel["id"] for panel in panels}) == len(panels)
    places = [panel["gridPos"] for panel in panels]
    cells = [
        (x, y)
        for at in places
        for x in range(at["x"], at["x"] + at["w"])
        for y in range(at["y"], at["y"] + at["h"])
    ]
    assert len(set(cells)) == len(cells)
    assert all(at["x"] >= 0 and at["x"] + at["w"] <= 24 for at in places)
