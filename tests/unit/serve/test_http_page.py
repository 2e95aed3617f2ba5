"""docs/http.md: its requests are made, and its answers have the members that the page shows."""

from __future__ import annotations

import json
import re
import shlex
import time
from pathlib import Path

import httpx
import pyarrow as pa
import pytest
from prometheus_client.parser import text_string_to_metric_families

import rechannel as rc
from rechannel import aggregates as agg
from rechannel.control.loading import Wanted
from rechannel.job import InProcess
from rechannel.serve.allowed import Allowed
from rechannel.serve.failures import KINDS
from rechannel.sources.connectors import MemoryConnector
from tests.support.asking import bearer, get
from tests.support.controllers import shop_control

PAGE = (Path(__file__).parents[3] / "docs" / "http.md").read_text(encoding="utf-8")
BLOCKS = re.findall(r"^```(sh|json)\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)


@pytest.fixture
def shop(tmp_path, monkeypatch):
    """The job of the page."""
    shop_control(tmp_path / "path", monkeypatch)
    connector = MemoryConnector(schema="item STRING", partitions=2, per_timestep=1)
    rows = rc.read().memory(connector, name="orders")
    counts = rows.key_by("item").aggregate(n=agg.count(), name="counts", tasks=2)
    settings = rc.Settings(durability=rc.Durability.PROCESS, bins=64)
    shown = counts.write.memory("shown", name="shown")
    job = rc.Job("shop", shown, state=tmp_path / "state", settings=settings)
    running = job.start(in_process=InProcess())
    for _ in range(2):
        connector.push(pa.record_batch({"item": ["a", "b"]}))
        running.process_all_available(60)
    with running.serve(port=0, allow=["shop.control"]) as server:
        yield running, server
    running.stop()


def requests(block: str):
    """(method, path, headers, body) of the curl commands in a block."""
    for line in block.replace("\\\n", " ").strip().splitlines():
        program, *words = shlex.split(line)
        assert (program, words.pop(0)) == ("curl", "-s")
        headers, body = {}, None
        url = words.pop(0)
        for option, value in zip(words[::2], words[1::2], strict=True):
            if option == "-H":
                name, _, text = value.partition(": ")
                headers[name] = text
            else:
                assert option == "-d"
                body = value
        assert url.startswith("http://127.0.0.1:8520/")
        yield "GET" if body is None else "POST", url.partition(":8520")[2], headers, body


def assert_alike(shown, given, where: str) -> None:
    """The members that the page shows are those that there are; lists are judged by their first value."""
    assert type(shown) is type(given) or None in (shown, given) or where.endswith("ms"), where
    if isinstance(shown, dict) and not where.endswith(("sources.orders", "latency_ms", "times")):
        assert shown.keys() == given.keys(), where
        for name in shown:
            assert_alike(shown[name], given[name], f"{where}.{name}")
    elif isinstance(shown, list) and shown and given:
        assert_alike(shown[0], given[0], f"{where}[0]")


def test_the_page(shop):
    running, server = shop
    answer = None
    asked = 0
    for kind, block in BLOCKS:
        if kind == "sh":
            for method, path, headers, body in requests(block):
                reply = httpx.request(
                    method,
                    server.url + path,
                    headers={**headers, **bearer(server)},
                    content=body,
                    trust_env=False,
                )
                answer = reply.json()
                asked += 1
                running.process_all_available(60)
        else:
            assert_alike(json.loads(block), answer, "answer")
    assert asked == 11
    assert answer == {
        "error": "unknown_operator",
        "message": "there is no operator 'missing'; there are 'counts', 'orders'",
    }
    phases = [one.phase for one in running.history()]
    assert phases == ["done", "aborted"]
    assert running.controllers == {}


def test_every_route_is_told_and_no_other(shop):
    _, server = shop
    document = get(server, "/openapi.json").json()
    there = {
        f"{method.upper()} {path}"
        for path, methods in document["paths"].items()
        for method in methods
    }
    assert set(re.findall(r"^\| `((?:GET|POST) [^`]+)`", PAGE, re.MULTILINE)) == there


def test_every_error_is_told():
    for _, status, kind in KINDS:
        [row] = re.findall(rf"^\| [\d, ]*\b{status}\b[\d, ]* \| .*$", PAGE, re.MULTILINE)
        assert f"`{kind}`" in row


def test_every_figure_is_told_and_no_other(shop):
    running, server = shop
    running.reconfigure(rc.changes.set_interval(1), at=100_000)
    wanted = Wanted(path="shop.control:Grow", parameters={"operator": "counts", "most": 1})
    handle = running.control(wanted.made(Allowed(modules=("shop.control",)).controller))
    handle.trigger()
    deadline = time.monotonic() + 60
    while not handle.status.metrics:
        assert time.monotonic() < deadline, handle.status
        time.sleep(0.005)
    text = get(server, "/metrics").text
    families = list(text_string_to_metric_families(text))
    there = {s.name for f in families for s in f.samples}
    # This job has no event time, and at rest no timestep is open.
    unseen = {f.name for f in families if f.type == "gauge"} - there
    assert unseen <= {
        "rechannel_operator_watermark_timestamp_seconds",
        "rechannel_operator_event_time_lag_seconds",
        "rechannel_timestep_open_timestamp_seconds",
    }
    there |= unseen
    told = re.findall(r"`(rechannel_\w+)`", PAGE.partition("## Figures")[2])
    assert set(told) == there
