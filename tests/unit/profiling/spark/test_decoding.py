"""Lines of event logs that went through other tools, or were damaged."""

import json

import pytest

from rechannel.profiling.spark import decoding
from rechannel.profiling.spark.decoding import PLAN_DEPTH, MalformedEventError, decode
from rechannel.profiling.spark.log import SparkLog
from tests.unit.profiling.logs import info, metrics, small, stage_info, task_end

SQL = b"org.apache.spark.sql.execution.ui.SparkListenerSQLExecutionStart"


def reordered(value):
    """The same object with its keys the other way round."""
    if isinstance(value, dict):
        return {key: reordered(each) for key, each in reversed(value.items())}
    return [reordered(each) for each in value] if isinstance(value, list) else value


def changed(line, **fields):
    """A line with fields replaced, or removed if they are `...`."""

    def change(value):
        if isinstance(value, dict):
            kept = {key: fields.get(key, each) for key, each in value.items()}
            return {key: change(each) for key, each in kept.items() if each is not ...}
        return [change(each) for each in value] if isinstance(value, list) else value

    return json.dumps(change(json.loads(line)), separators=(",", ":")).encode()


@pytest.mark.parametrize("line", small())
def test_spaces_and_another_order_of_keys_change_nothing(line):
    whole = decode(line.strip())
    value = json.loads(line)
    assert decode(json.dumps(value, indent=1).encode()) == whole
    assert decode(json.dumps(reordered(value)).encode()) == whole
    assert b'"Event"' not in json.dumps(reordered(value)).encode()[:9]


END = task_end(0, info(5, "1", 115, 300), metrics(180, fetch=4)).strip()


def test_optional_fields_that_are_null_have_their_defaults():
    nulls = dict.fromkeys(
        (
            "Index",
            "Getting Result Time",
            "Failed",
            "Speculative",
            "Executor Run Time",
            "Task End Reason",
        )
    )
    whole, found = decode(END), decode(changed(END, **nulls))
    assert (found.info.number, found.info.launch) == (whole.info.number, whole.info.launch)
    assert (found.info.index, found.info.getting, found.info.failed) == (0, 0, False)
    assert (found.metrics.run, found.metrics.read.fetch_wait) == (0, 4)
    stage = {"Event": "SparkListenerStageSubmitted", "Stage Info": stage_info(3, parents=[1])}
    told = json.dumps({**stage, "Properties": None}).encode()
    assert decode(changed(told, **{"RDD Info": None, "Stage Name": None})).info.rdds == []
    assert decode(changed(told, **{"Parent IDs": None})).info.parents == []


@pytest.mark.parametrize(
    ("field", "value", "of"),
    [
        ("Task ID", "5", lambda found: found.info.number == 5),
        ("Launch Time", 1.7e12, lambda found: found.info.launch == 1_700_000_000_000),
        ("Executor ID", 7, lambda found: found.info.executor == "7"),
        ("Failed", "true", lambda found: found.info.failed),
        ("Failed", 1, lambda found: not found.info.failed),
        ("Index", [1], lambda found: found.info.index == 0),
        ("Index", 1.5, lambda found: found.info.index == 0),
        ("Index", "1e400", lambda found: found.info.index == 0),
        ("JVM GC Time", "NaN", lambda found: found.metrics.gc == 0),
        ("Index", 10**30, lambda found: found.info.index == 0),
        ("Bytes Read", -(1 << 63), lambda found: found.metrics.input.size == 0),
        ("Executor Run Time", 1 << 62, lambda found: found.metrics.run == 0),
        ("Task Metrics", [], lambda found: found.metrics is None),
        ("Shuffle Read Metrics", 3, lambda found: found.metrics.read.fetch_wait == 0),
    ],
)
def test_values_of_a_near_type(field, value, of):
    assert of(decode(changed(END, **{field: value})))


@pytest.mark.parametrize(
    ("field", "value", "words"),
    [
        ("Task ID", None, "it has no Task ID"),
        ("Task ID", ..., "it has no Task ID"),
        ("Task ID", {}, "Task ID: an object is not of type int"),
        ("Launch Time", "noon", "Launch Time: 'noon' is no whole number"),
        ("Launch Time", "9" * 30, "Launch Time: '9999.* is no whole number"),
        ("Task Info", "x" * 100, "'xxx.* ... is not of type struct"),
        ("Stage ID", True, "True is not of type int"),
    ],
)
def test_required_fields_make_a_bad_line(field, value, words):
    with pytest.raises(MalformedEventError, match=words):
        decode(changed(END, **{field: value}))


@pytest.mark.parametrize(
    ("line", "words"),
    [
        (b"{}", "no event's name"),
        (b'{"Event":7}', "no event's name"),
        (b'["Event"}', "does not begin with {"),
        (b'{"Event":"Spark', "truncated"),
        (b'{"a":' + b"[" * 100_000 + b"}", "nested too deeply"),
        (b'{"Event":"SparkListenerTaskEnd","a":' + b"[" * 100_000 + b"}", "nested too deeply"),
        (
            b'{"Event":"SparkListenerTaskEnd","Stage ID":"' + b"\\ud800" + b'"}',
            "surrogate|truncated",
        ),
    ],
)
def test_what_is_no_event(line, words):
    with pytest.raises(MalformedEventError, match=words):
        decode(line)


def test_bytes_that_are_not_utf_8_are_replaced():
    found = decode(END.replace(b'"Executor ID":"1"', b'"Executor ID":"h\xff\xfe"'))
    assert found.info.executor == "h\ufffd\ufffd"


def plan(depth):
    return b'{"nodeName":"n","children":[' * depth + b"]}" * depth


@pytest.mark.parametrize("depth", [10, PLAN_DEPTH, 300, 100_000])
def test_plans_of_any_depth(depth):
    line = b'{"Event":"' + SQL + b'","executionId":1,"sparkPlanInfo":' + plan(depth) + b"}"
    log = SparkLog().read([*small(), line + b"\n"])
    assert log.bad_lines == (depth > 1_000)
    if depth <= 300:
        levels, nodes = 0, [decode(line).plan]
        while nodes:
            levels, nodes = levels + 1, [child for node in nodes for child in node.children]
        assert levels == min(depth, PLAN_DEPTH + 1)


def test_a_line_that_is_too_long_is_skipped(monkeypatch):
    monkeypatch.setattr(decoding, "LONGEST_LINE", 1_000)
    long = changed(END, Host="h" * 2_000)
    log = SparkLog().read([*small(), long + b"\n"])
    assert [number for number, _ in log.bad] == [len(small()) + 1]
    assert "it is longer than" in log.bad[0][1]
