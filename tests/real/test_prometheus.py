"""deploy/prometheus and deploy/grafana with a real Prometheus, which scrapes a served job."""

from __future__ import annotations

import json
import time
from pathlib import Path

import pytest
import yaml

import rechannel as rc
from rechannel import aggregates as agg
from rechannel.job import InProcess
from rechannel.testing import script
from tests.real.components.prometheus import Prometheus, promtool
from tests.support.asking import get

DEPLOY = Path(__file__).parents[2] / "deploy"
RULES = DEPLOY / "prometheus" / "rules.yml"
SECONDS = 60.0


@pytest.fixture
def served(tmp_path):
    """A served job that has read three rows."""
    rows = script("k STRING")
    flow = rc.read().memory(rows, name="rows").key_by("k").aggregate(n=agg.count(), name="counts")
    job = rc.Job("shop", flow, state=tmp_path / "state").start(in_process=InProcess())
    with job.serve(port=0) as server:
        rows.push([{"k": "a"}, {"k": "b"}, {"k": "a"}])
        job.process_all_available(60)
        yield job, server
    job.stop()


@pytest.fixture
def prometheus(tmp_path, served):
    """A Prometheus that scrapes the job every half second, as the configuration in deploy/ says."""
    _, server = served
    told = yaml.safe_load((DEPLOY / "prometheus" / "prometheus.yml").read_text())
    token = tmp_path / "token"
    token.write_text(server.token)
    told["global"] = {"scrape_interval": "500ms", "evaluation_interval": "500ms"}
    told["rule_files"] = [str(RULES)]
    (scraped,) = told["scrape_configs"]
    scraped["authorization"]["credentials_file"] = str(token)
    scraped["static_configs"] = [{"targets": [server.url.removeprefix("http://")]}]
    file = tmp_path / "prometheus.yml"
    file.write_text(yaml.safe_dump(told))
    promtool("check", "config", file)
    made = Prometheus(tmp_path, file)
    made.start()
    yield made
    made.kill()


def until(ask, wanted):
    """What `ask` returns, once it is as wanted."""
    deadline = time.monotonic() + SECONDS
    while not wanted(found := ask()):
        assert time.monotonic() < deadline, found
        time.sleep(0.2)
    return found


def test_rules_are_valid_and_fire_as_their_tests_say():
    assert "SUCCESS: 14 rules found" in promtool("check", "rules", RULES)
    assert "SUCCESS" in promtool("test", "rules", RULES.with_name("rules_test.yml"))


def test_a_wrong_rule_would_be_found(tmp_path):
    wrong = tmp_path / "rules.yml"
    wrong.write_text(RULES.read_text().replace("increase(", "increases("))
    with pytest.raises(AssertionError, match="unknown function"):
        promtool("check", "rules", wrong)


def test_metrics_are_named_as_promtool_wants_them(served):
    _, server = served
    text = get(server, "/metrics").text
    assert "rechannel_source_lag_seconds" in text
    assert promtool("check", "metrics", said=text) == ""


def test_a_job_is_scraped_and_its_rules_are_evaluated(served, prometheus):
    job, _ = served
    read = until(lambda: prometheus.values("rechannel_rows_in_total"), bool)
    ((labels, rows),) = read.items()
    assert rows == 3
    assert dict(labels)["job_name"] == "shop"
    (known,) = prometheus.values('rechannel_source_lag_known{figure="rows"}').values()
    assert known == 1
    (state,) = prometheus.values('rechannel_operator_state_rows{operator="counts"}').values()
    assert state == job.status.operators["counts"].state_rows
    groups = until(
        lambda: prometheus.ask("rules")["groups"],
        lambda found: all(rule["health"] == "ok" for of in found for rule in of["rules"]),
    )
    assert [rule["state"] for of in groups for rule in of["rules"]] == ["inactive"] * 14


def test_every_panel_is_an_expression_that_prometheus_takes(prometheus):
    panels = json.loads((DEPLOY / "grafana" / "rechannel.json").read_text())["panels"]
    expressions = [each["expr"] for panel in panels for each in panel.get("targets", ())]
    assert len(expressions) > 25

    def empty() -> list[str]:
        plain = [
            each.replace("$__rate_interval", "30s").replace("$job", "shop") for each in expressions
        ]
        return [each for each in plain if not prometheus.values(each)]

    # Of a job at rest, without sinks, event time and controllers, the rest shows something.
    until(empty, lambda found: len(expressions) - len(found) >= 18)
