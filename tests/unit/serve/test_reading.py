from __future__ import annotations

import pytest

from rechannel.reconfigure.changes.tasks import Rescale
from rechannel.reconfigure.changes.together import Together
from rechannel.reconfigure.moment import EventMoment
from rechannel.serve.bodies import AbortBody, PlanBody, ReconfigureBody
from rechannel.serve.failures import MalformedError
from rechannel.serve.reading import MOST_VALUES, read_body

RESCALE = b'{"kind": "rescale", "operator": "users", "tasks": %s}'


def test_a_change_and_several_that_are_one():
    one = read_body(PlanBody, b'{"change": ' + RESCALE % b"3" + b"}")
    assert one.to_change() == Rescale(operator="users", tasks=3)
    both = read_body(PlanBody, b'{"changes": [' + RESCALE % b"3" + b"," + RESCALE % b"4" + b"]}")
    assert isinstance(both.to_change(), Together)


def test_an_empty_body_is_one_without_fields():
    assert read_body(AbortBody, b"").reason == "asked for over HTTP"


def test_a_time_needs_its_zone():
    change = b'"change": ' + RESCALE % b"3"
    at = read_body(ReconfigureBody, b'{"at": "2026-01-01T00:00:00Z",' + change + b"}").when()
    assert at.timestamp() == 1767225600
    assert read_body(ReconfigureBody, b'{"at": 7,' + change + b"}").when() == 7
    for wrong in (b'"2026-01-01T00:00:00"', b"-1", b"true", b"1.5", b'"7"', b"9007199254740993"):
        with pytest.raises(MalformedError, match=r"at\."):
            read_body(ReconfigureBody, b'{"at": ' + wrong + b"," + change + b"}")


def test_an_event_time_and_whose_it_is():
    change = b'"change": ' + RESCALE % b"3"

    def read(at):
        return read_body(ReconfigureBody, b'{"at": ' + at + b"," + change + b"}").when()

    assert read(b'{"event_time": "1970-01-01T00:00:01Z"}') == EventMoment(us=1_000_000)
    of_one = read(b'{"event_time": "1970-01-01T00:00:01Z", "operator": "users"}')
    assert of_one == EventMoment(us=1_000_000, operators=("users",))
    for wrong in (b"{}", b'{"event_time": 7}', b'{"event_time": "1970-01-01T00:00:01"}'):
        with pytest.raises(MalformedError, match=r"at\."):
            read(wrong)


@pytest.mark.parametrize(
    ("wrong", "words"),
    [
        (b"[]", "should be an object"),
        (b'{"change": ' + RESCALE % b'8, "tasks": 9' + b"}", "'tasks' is given twice"),
        (b'{"change": 1, "change": ' + RESCALE % b"8" + b"}", "'change' is given twice"),
        (b'{"change": 1, "ch\\u0061nge": ' + RESCALE % b"8" + b"}", "'change' is given twice"),
        (b"{", "not JSON"),
        (b"\xff\xfe{}", "not JSON"),
        (b"nul", "not JSON"),
        (b"{}", "exactly one of change, changes"),
        (b'{"change": null}', "exactly one of"),
        (b'{"changes": []}', "changes: "),
        (b'{"change": {}}', "change: .*kind"),
        (b'{"change": {"kind": "explode"}}', "change: .*explode"),
        (b'{"change": {"kind": "change_program", "version": 2, "text": "x"}}', "change_program"),
        (b'{"change": {"kind": "together", "changes": []}}', "together"),
        (b'{"change": 5}', "change"),
        (b'{"change": ' + RESCALE % b'"8"' + b"}", r"change: rescale: tasks: "),
        (b'{"change": ' + RESCALE % b"true" + b"}", r"change: rescale: tasks: "),
        (b'{"change": ' + RESCALE % b"8.0" + b"}", r"change: rescale: tasks: "),
        (b'{"change": ' + RESCALE % b"0" + b"}", r"change: rescale: tasks: "),
        (b'{"change": ' + RESCALE % b"-8" + b"}", r"change: rescale: tasks: "),
        (b'{"change": ' + RESCALE % b"1e999" + b"}", "1e999"),
        (b'{"change": ' + RESCALE % b"NaN" + b"}", "NaN"),
        (b'{"change": ' + RESCALE % b"-Infinity" + b"}", "Infinity"),
        (b'{"change": ' + RESCALE % (b"9" * 5000) + b"}", "5000 digits"),
        (b'{"change": ' + RESCALE % b'8, "colour": "red"' + b"}", r"change: rescale: colour: "),
        (b'{"colour": 1, "change": ' + RESCALE % b"8" + b"}", "colour"),
        (b'{"change": ' + RESCALE.replace(b"users", b"u" * 201) % b"8" + b"}", "operator"),
        (
            b'{"strategy": {"kind": "fluid", "bins": "1"}, "change": ' + RESCALE % b"8" + b"}",
            "bins",
        ),
        (b'{"strategy": {"kind": "fluid", "gap": -1}, "change": ' + RESCALE % b"8" + b"}", "gap"),
        (b'{"strategy": {"kind": "brutal"}, "change": ' + RESCALE % b"8" + b"}", "strategy"),
    ],
)
def test_what_is_malformed_is_named(wrong, words):
    with pytest.raises(MalformedError, match=words):
        read_body(PlanBody, wrong)


def test_depth_is_bounded():
    for deep in (b"[" * 100_000, b'{"change":' * 100_000, b"[" * 500 + b"]" * 500):
        with pytest.raises(MalformedError):
            read_body(PlanBody, deep)


def test_how_many_values_is_bounded():
    many = b'{"changes": [' + b",".join([b"1"] * (MOST_VALUES + 2)) + b"]}"
    with pytest.raises(MalformedError, match="more than 1000000 values"):
        read_body(PlanBody, many)
    wrong = b'{"change": {"kind": "move", "operator": "o", "task": 1, "bins": [%s]}}'
    with pytest.raises(MalformedError, match=r"move: bins\[0\]: expected int >= 0, got -1"):
        read_body(PlanBody, wrong % b",".join([b"-1"] * 100))
