"""What is logged has fields, which the docs list, and says of which job it is."""

from __future__ import annotations

import ast
import logging
import os
import re
import subprocess
import sys
from collections import defaultdict
from pathlib import Path

import pytest

import rechannel as rc
from rechannel import aggregates as agg
from rechannel.logs import FIELDS, MOST_BYTES, fields, logging_for
from rechannel.sources.memory import MemoryReader
from rechannel.testing import script
from rechannel.threads import DaemonThreads, daemon_thread
from tests.pages import DOCS

SOURCES = Path(rc.__file__).parent
SECONDS = 60.0


def calls():
    """(file, call) of everything that is logged."""
    for path in sorted(SOURCES.rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            function = node.func if isinstance(node, ast.Call) else None
            logger = function.value if isinstance(function, ast.Attribute) else None
            if isinstance(logger, ast.Name) and logger.id == "_LOG":
                yield path, node


def extra_of(call):
    """The call of `fields` that a record has."""
    (extra,) = [keyword.value for keyword in call.keywords if keyword.arg == "extra"]
    assert extra.func.id == "fields"
    return extra


def test_every_record_has_fields_that_are_known():
    found = list(calls())
    assert len(found) > 40
    for path, call in found:
        extra = extra_of(call)
        assert re.fullmatch(r"[a-z]+(_[a-z]+)*", extra.args[0].value), path
        assert {keyword.arg for keyword in extra.keywords} <= FIELDS.keys() - {"event", "job"}, path


def test_one_logger_takes_everything():
    for path in SOURCES.rglob("*.py"):
        made = re.findall(r"logging\.getLogger\((.*?)\)", path.read_text(encoding="utf-8"))
        if path.name not in {"health.py"}:  # it listens to those of OpenTelemetry
            assert set(made) <= {'"rechannel"'}, path


def test_the_page_lists_every_field_and_every_event():
    page = (DOCS / "watching-a-job.md").read_text(encoding="utf-8")
    section = page.partition("\n## The log\n")[2]
    assert re.findall(r"^\| `([a-z_]+)` \| [^|]+ \|$", section, re.M) == list(FIELDS)
    events = defaultdict(lambda: (set(), set()))
    for _, call in calls():
        extra = extra_of(call)
        levels, names = events[extra.args[0].value]
        levels.add("ERROR" if call.func.attr == "exception" else call.func.attr.upper())
        names |= {keyword.arg for keyword in extra.keywords}
    rows = re.findall(r"^\| `([a-z_]+)` \| ([^|]*?) \| ([^|]*?) \| [^|]+ \|$", section, re.M)
    assert [
        (event, set(re.findall(r"\w+", levels)), set(re.findall(r"\w+", names)))
        for event, levels, names in rows
    ] == [(event, *events[event]) for event in sorted(events)]


def test_a_thread_logs_for_the_job_that_it_was_begun_for():
    heard = []
    pool = DaemonThreads(1, "some")
    with logging_for("shop"):
        thread = daemon_thread(lambda: heard.append(fields("one")["job"]), "one")
        pool.submit(lambda: heard.append(fields("two")["job"])).result(SECONDS)
    thread.start()
    thread.join(SECONDS)
    pool.submit(lambda: heard.append(fields("three")["job"])).result(SECONDS)
    pool.shutdown()
    assert heard == ["shop", "shop", None]
    assert fields("four", reason=OSError("gone")) == {
        "event": "four",
        "job": None,
        "reason": "gone",
    }


@pytest.mark.parametrize("reason", ["x" * 1_000_000, "é" * 100_000, OSError("x" * 1_000_000)])
def test_no_field_is_long(reason):
    assert len(fields("five", reason=reason)["reason"].encode()) <= MOST_BYTES


def test_of_an_error_the_first_line_is_logged():
    raised = ValueError("not a price\nrow: user-17, 4 Main Street")
    assert fields("six", reason=raised)["reason"] == "not a price"


def raised_names(tree):
    """(call of the log, names of exceptions that are in scope)."""

    def walk(node, names):
        if isinstance(node, ast.ExceptHandler) and node.name:
            names |= {node.name}
        if isinstance(node, ast.FunctionDef):
            names |= {
                arg.arg
                for arg in node.args.args
                if arg.annotation and re.search("Error|Exception", ast.unparse(arg.annotation))
            }
        if isinstance(node, ast.Call) and ast.unparse(node.func).startswith("_LOG."):
            yield node, names
        for child in ast.iter_child_nodes(node):
            yield from walk(child, names)

    yield from walk(tree, frozenset())


def test_no_message_has_the_whole_text_of_an_error():
    for path in sorted(SOURCES.rglob("*.py")):
        for call, names in raised_names(ast.parse(path.read_text(encoding="utf-8"))):
            said = {arg.id for arg in call.args[1:] if isinstance(arg, ast.Name)}
            assert not said & names, (path, call.lineno)


class Failing(rc.monitoring.JobListener):
    def on_progress(self, progress):
        raise LookupError("not that")


def test_records_of_a_job_name_it_whatever_thread_they_come_from(tmp_path, caplog, monkeypatch):
    def silent(self, end, stream_ms):
        raise OSError("no answer")

    monkeypatch.setattr(MemoryReader, "backlog", silent)
    caplog.set_level(logging.DEBUG, "rechannel")
    rows = script("k STRING")
    flow = rc.read().memory(rows, name="rows").key_by("k").aggregate(n=agg.count(), name="counts")
    job = rc.Job("shop", flow, state=tmp_path / "state").start(in_process=rc.InProcess())
    listening = job.listen(Failing())
    rows.push([{"k": "a"}])
    job.process_all_available(SECONDS)
    job.stop(SECONDS)
    assert listening.join(SECONDS)
    told = {record.event: record for record in caplog.records}
    assert told.keys() == {"job_started", "backlog_unknown", "listener_failed", "job_ended"}
    assert {record.job for record in told.values()} == {"shop"}
    assert (told["backlog_unknown"].source, told["backlog_unknown"].reason) == ("rows", "no answer")
    assert told["job_started"].timestep == 1
    assert told["listener_failed"].listener == "Failing"
    assert told["job_ended"].reason is None


QUIET = """
import logging
import sys

import rechannel as rc
from rechannel.testing import script

logging.basicConfig(level=logging.INFO, format="%(levelname)s %(event)s %(job)s")
rows = script("k STRING")
counts = rc.read().memory(rows, name="rows").key_by("k").aggregate(n=rc.aggregates.count(), name="counts")
flow = counts.write.for_each_batch(lambda batch, timestep: None, name="out")
job = rc.Job("shop", flow, state=sys.argv[1]).start(in_process=rc.InProcess())
for _ in range(3):
    rows.push([{"k": "a"}])
    job.process_all_available(60)
job.reconfigure(rc.changes.rescale("counts", tasks=3)).wait(60)
job.stop()
"""


def test_a_job_that_runs_and_is_stopped_says_nothing_else(tmp_path):
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", QUIET, str(tmp_path / "state")],
        capture_output=True,
        text=True,
        timeout=SECONDS,
        check=False,
        env=os.environ | {"PYTHONPATH": str(SOURCES.parent)},
    )
    assert done.returncode == 0, done.stderr
    assert done.stderr.splitlines() == ["INFO job_started shop", "INFO job_ended shop"]
    assert done.stdout == ""


def test_events_and_fields_are_no_attributes_of_records():
    assert not FIELDS.keys() & vars(logging.makeLogRecord({})).keys()
    assert not FIELDS.keys() & {"message", "asctime"}


@pytest.mark.parametrize("name", sorted(FIELDS))
def test_every_field_can_be_logged(name):
    logging.getLogger("rechannel").debug("some", extra={name: "any"})
