from __future__ import annotations

from prometheus_client.parser import text_string_to_metric_families

import rechannel as rc
from tests.support.asking import get


def scrape(server):
    """(name, labels) -> value, read by Prometheus' own parser."""
    answer = get(server, "/metrics")
    assert answer.headers["content-type"].startswith("text/plain")
    return {
        (sample.name, *sorted(sample.labels.items())): sample.value
        for family in text_string_to_metric_families(answer.text)
        for sample in family.samples
    }


def test_figures_are_those_of_the_job(clicks, server):
    clicks.push([("ann", 1), ("bob", 2), ("cleo", 3)])
    figures = scrape(server)
    assert figures["rechannel_job_active", ("name", "clicks")] == 1
    assert figures["rechannel_timestep",] == 2
    assert figures["rechannel_timesteps_committed_total",] == 2
    assert figures["rechannel_rows_in",] == 3
    assert figures["rechannel_configuration_version",] == clicks.running.configuration.version
    last = clicks.running.last_progress
    assert figures["rechannel_timestep_latency_seconds",] == last["duration_ms"] / 1e3
    for quantile in ("0.5", "0.99"):
        assert ("rechannel_timestep_latency_recent_seconds", ("quantile", quantile)) in figures
    for operator, facts in last["operators"].items():
        assert figures["rechannel_operator_rows_in", ("operator", operator)] == facts["rows_in"]
    users = ("operator", "users")
    assert figures["rechannel_operator_tasks", users] == 2
    assert figures["rechannel_operator_bins", users] == 256
    assert (
        figures["rechannel_operator_state_rows", users] == last["operators"]["users"]["state_rows"]
    )
    assert figures["rechannel_operator_state_bytes", users] > 0
    assert ("rechannel_operator_bins", ("operator", "clicks")) not in figures
    assert all(name.startswith("rechannel_") for name, *_ in figures)


def test_open_reconfigurations_are_counted(clicks, server):
    assert scrape(server)["rechannel_reconfigurations_open",] == 0
    clicks.running.reconfigure(rc.rescale("users", tasks=3), at=1000)
    figures = scrape(server)
    assert figures["rechannel_reconfigurations_open",] == 1
    assert figures["rechannel_reconfiguration_bins_moved", ("id", "r1")] == 0
    assert figures["rechannel_reconfiguration_bins_left", ("id", "r1")] == 0


def test_odd_names_are_escaped(tmp_path):
    from rechannel.job import InProcess
    from rechannel.testing import script

    words = script("word string", [[{"word": "a"}]])
    flow = rc.read().memory(words).key_by("word").aggregate(n=rc.count(), name="count")
    job = rc.Job('a "job"\\\n', flow, state=tmp_path / "state").start(in_process=InProcess())
    with job.serve(port=0) as server:
        job.process_all_available(60)
        assert scrape(server)["rechannel_job_active", ("name", 'a "job"\\\n')] == 1
    job.stop()
