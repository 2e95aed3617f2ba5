"""Controllers and handlers that do what nobody should: each fails for itself, and the stream goes on."""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest

import rechannel as rc
from rechannel.control import OperatorHandler, TaskView
from rechannel.control.board import LINE_CHARACTERS, LOG_KEPT
from rechannel.control.events import Called, Handled
from rechannel.control.triggers import Every
from rechannel.errors import RefusedError
from rechannel.kernels.tasks import limited
from rechannel.kernels.tasks.limited import jsonable
from rechannel.testing import Harness
from tests.unit.engine.control.test_host import Watching, command, harness, numbered, seat
from tests.unit.engine.control.test_host_moments import controlling

HAPPENED: list[str] = []
"""What the faults have done: each of them says so."""


@pytest.fixture(autouse=True)
def nothing_yet():
    HAPPENED.clear()


def nested(levels: int) -> Any:
    value: Any = 0
    for _ in range(levels):
        value = [value]
    return value


def stuck() -> None:
    HAPPENED.append("loop")
    while True:
        time.sleep(0.001)


def leave() -> None:
    HAPPENED.append("exit")
    sys.exit(3)


class Endless(Exception):  # noqa: N818 - the name says what it is
    """Does not come to the end of what it says."""

    def __str__(self) -> str:
        stuck()
        return "never"


def raise_endless() -> None:
    raise Endless


def raise_much() -> None:
    HAPPENED.append("much")
    raise ValueError("x" * (64 << 20))


VALUES: dict[str, tuple[Callable[[], Any], str]] = {
    "nan": (lambda: float("nan"), "Out of range float values"),
    "infinite": (lambda: [float("inf")], "Out of range float values"),
    "an object": (object, "not JSON serializable"),
    "many digits": (lambda: 10**5_000, "Exceeds the limit"),
    "too large": (lambda: "x" * (2 << 20), "bytes"),
    "large once it is written": (lambda: "☃" * (1 << 19), "bytes, over the limit"),
    "nested": (lambda: nested(200), "levels deep"),
    "nested beyond the stack": (lambda: nested(50_000), "RecursionError"),
}
"""Values that neither a state nor a reply can be, and what is said about them."""


class First(rc.control.Controller):
    """Begins with any state."""

    def __init__(self, first: Callable[[], Any]) -> None:
        self.first = first

    def on_init(self):
        HAPPENED.append("init")
        return self.first()


def lookup_fails() -> None:
    raise KeyError("no table")


@pytest.mark.parametrize(
    ("first", "said"),
    [
        *VALUES.values(),
        (stuck, "it took longer than 0.5 s"),
        (leave, "SystemExit: 3"),
        (raise_endless, "it took longer than 0.5 s"),
        (raise_much, "xxx"),
        (lookup_fails, "KeyError: 'no table'"),
    ],
    ids=[*VALUES, "loop", "exit", "endless", "much", "raise"],
)
def test_a_first_state_that_cannot_be_is_refused(first, said):
    stream = harness()
    process = stream.start()
    hostile = rc.control.install(
        First(first), seconds=0.5 if first in {stuck, raise_endless} else 10
    )
    with pytest.raises(RefusedError, match="controller 'first' is not installed") as refused:
        process.controllers.install(hostile)
    assert said in str(refused.value)
    assert len(str(refused.value)) < 3_000
    assert HAPPENED[0] == "init"
    process.run()
    assert process.controllers.board.seats == {}
    assert list(stream.outputs()) == [1, 2, 3, 4]


@pytest.mark.parametrize(
    "trigger",
    [
        None,
        "hourly",
        Every(timesteps="two"),
        type("T", (Every,), {})(),
        rc.control.when("rows_in", above="many"),
    ],
)  # type: ignore[arg-type]
def test_a_trigger_is_one_of_those_that_there_are(trigger):
    class Odd(rc.control.Controller):
        pass

    Odd.trigger = trigger
    with pytest.raises(RefusedError, match="controller 'odd' is not installed"):
        harness().start().controllers.install(rc.control.install(Odd()))


class Doing(rc.control.Controller):
    """Does any one thing, when it is called."""

    def __init__(self, do: Callable[[Any], Any]) -> None:
        self.do = do

    def on_init(self):
        return {"good": 1}

    def on_begin(self, control):
        HAPPENED.append("begin")
        return self.do(control)

    def on_complete(self, control, outcome):
        control.state = {
            "replies": dict(outcome.replies),
            "failures": sorted({f.error.strip().splitlines()[-1] for f in outcome.failures}),
        }


def set_state(value: Callable[[], Any]) -> Callable[[Any], None]:
    def do(control: Any) -> None:
        control.state = value()

    return do


def change_in_place(control: Any) -> None:
    control.state["good"] = 2
    raise LookupError("after all")


class Locked(OperatorHandler):
    def __init__(self) -> None:
        self.lock = threading.Lock()


class Heavy(OperatorHandler):
    def __init__(self) -> None:
        self.table = "x" * (5 << 20)


class Keyed(OperatorHandler):
    heaviest = "all"  # type: ignore[assignment]


CALLBACKS: dict[str, tuple[Callable[[Any], Any], str]] = {
    **{name: (set_state(value), said) for name, (value, said) in VALUES.items()},
    "loop": (lambda _: stuck(), "it took longer than 0.5 s"),
    "exit": (lambda _: leave(), "SystemExit: 3"),
    "in place": (change_in_place, "LookupError: after all"),
    "no operation": (lambda _: "go", "on_begin returned a str"),
    "no change": (lambda control: control.reconfigure("faster"), "no attribute 'to_json'"),
    "many changes": (
        lambda control: (
            [control.reconfigure(rc.changes.rescale("counts", 3)) for _ in range(1_000)] and None
        ),
        "1,000 changes in one callback",
    ),
    "a large reason": (
        lambda control: control.reconfigure(
            rc.changes.rescale("counts", 3), reason="x" * (5 << 20)
        ),
        "what it requests has more than",
    ),
    "no pickle": (lambda _: rc.control.operation(Locked()), "cannot pickle"),
    "a large handler": (lambda _: rc.control.operation(Heavy()), "bytes as a pickle"),
    "no number of keys": (lambda _: rc.control.operation(Keyed()), "heaviest='all'"),
}


@pytest.mark.parametrize("kind", CALLBACKS)
def test_a_callback_that_fails_leaves_nothing(kind):
    do, said = CALLBACKS[kind]
    stream = harness()
    hostile = rc.control.install(Doing(do), seconds=0.5 if kind == "loop" else 10)
    process = stream.start(controllers=[hostile])
    command(process, Called, "doing")
    process.run()
    assert HAPPENED[0] == "begin"
    there = seat(process, "doing")
    assert there.failures == 1
    assert "on_begin failed" in there.log[-1].text
    assert said in there.log[-1].text
    assert (there.state, there.operation, there.requested) == ({"good": 1}, None, 0)
    assert process.changes.coordination.records == ()
    assert [table.num_rows for table in stream.outputs().values()] == [10] * 4
    process.stop()
    again = stream.start(controllers=[hostile])
    assert seat(again, "doing") == there


def test_notes_are_cut():
    def note(control: Any) -> None:
        for _ in range(1_000):
            control.note("x" * 100_000)

    process = harness().start(controllers=[Doing(note)])
    command(process, Called, "doing")
    process.run()
    lines = [line.text for line in seat(process, "doing").log]
    assert lines == ["x" * LINE_CHARACTERS] * LOG_KEPT


def test_metrics_that_were_never_there_are_not_kept():
    def show(control: Any) -> None:
        control.metric("kept", 1 if control.state == {"good": 1} else None)
        control.state = {"good": 2}
        for number in range(10_000):
            control.metric(f"metric{number}", None)

    stream = harness()
    process = stream.start(controllers=[Doing(show)])
    for expected in ({"kept": {"": 1}}, {}):
        command(process, Called, "doing")
        process.run()
        assert seat(process, "doing").metrics == expected
    handled = [e for body in controlling(stream) for e in body.events if isinstance(e, Handled)]
    assert [event.metrics for event in handled] == [{"kept": {"": 1}}, {"kept": {"": None}}]


class Replying(OperatorHandler):
    """Replies with anything."""

    def __init__(self, value: Callable[[], Any]) -> None:
        self.value = value

    def on_complete(self, task: TaskView) -> Any:
        HAPPENED.append("reply")
        return self.value()


class Waking(OperatorHandler):
    """Never ends being unpickled."""

    def __setstate__(self, state: Any) -> None:
        stuck()

    def __getstate__(self) -> dict[str, int]:
        return {"some": 1}


class Stubborn(OperatorHandler):
    """Catches everything, what would end it included, until the test lets it go."""

    free = threading.Event()
    left = threading.Event()

    def on_complete(self, task: TaskView) -> Any:
        HAPPENED.append("reply")
        while not self.free.is_set():
            try:
                self.free.wait(0.001)
            except BaseException:
                HAPPENED.append("caught")
        self.left.set()


def replies(handler: OperatorHandler, seconds: float = 0.2) -> tuple[Any, Any]:
    """What a controller hears of a handler, and the output of its stream."""
    stream = harness()
    sends = Doing(lambda _: rc.control.operation(handler, seconds=seconds, reply_bytes=1 << 20))
    process = stream.start(controllers=[sends])
    command(process, Called, "doing")
    process.run()
    return seat(process, "doing").state, [t.num_rows for t in stream.outputs().values()]


@pytest.mark.parametrize(
    ("value", "said"),
    [
        *VALUES.values(),
        (stuck, "it took longer than 0.2 s"),
        (leave, "SystemExit: 3"),
        (raise_endless, "it took longer than 0.2 s"),
    ],
    ids=[*VALUES, "loop", "exit", "endless"],
)
def test_a_reply_that_cannot_be_is_a_failed_one(value, said):
    state, rows = replies(Replying(value), 0.2 if value in {stuck, raise_endless} else 10)
    assert "reply" in HAPPENED
    assert state["replies"] == {}
    assert all(said in failure for failure in state["failures"])
    assert state["failures"]
    assert rows == [10] * 4


def test_a_handler_that_is_stuck_before_it_begins_is_a_failed_reply():
    state, rows = replies(Waking())
    assert "loop" in HAPPENED
    assert (state["replies"], state["failures"]) == ({}, ["it took longer than 0.2 s"])
    assert rows == [10] * 4


def test_a_handler_that_cannot_be_ended_is_left_behind():
    Stubborn.free.clear()
    Stubborn.left.clear()
    state, rows = replies(Stubborn())
    assert "caught" in HAPPENED
    assert not Stubborn.left.is_set()
    assert (state["replies"], state["failures"]) == ({}, ["it took longer than 0.2 s"])
    assert rows == [10] * 4
    Stubborn.free.set()
    assert Stubborn.left.wait(60)


class Forever(rc.control.Controller):
    """Sends a handler that overruns its time with every timestep."""

    trigger = rc.control.every(timesteps=1)

    def on_begin(self, control):
        return rc.control.operation(Replying(stuck), seconds=0.05)


def test_a_controller_is_suspended_whose_handlers_all_fail():
    stream = harness(steps=9)
    process = stream.start(controllers=[Forever(), Watching()])
    process.run()
    there = seat(process, "forever")
    assert "loop" in HAPPENED
    assert (there.sent, there.suspended) == (3, True)
    assert there.paused == (
        "every reply to 3 operations in a row has failed, such as: it took longer than 0.05 s"
    )
    assert not seat(process, "watching").suspended
    assert [table.num_rows for table in stream.outputs().values()] == [10] * 9


class SlowEverywhere(OperatorHandler):
    """Takes two thirds of its time to be unpickled, and as much for a merge."""

    def __setstate__(self, state: Any) -> None:
        pass_seconds(40)

    def __getstate__(self) -> dict[str, int]:
        return {"some": 1}

    def on_complete(self, task: TaskView) -> int:
        HAPPENED.append(task.operator)
        return 1

    def merge(self, one: int, other: int) -> int:
        HAPPENED.append("merge")
        pass_seconds(40)
        return one + other


PASSED: list[float] = []


def pass_seconds(seconds: float) -> None:
    PASSED.append(seconds)


def test_a_handler_has_one_budget_for_all_that_it_does_in_a_task(monkeypatch):
    monkeypatch.setattr(limited, "monotonic", lambda: sum(PASSED))
    rows = rc.read().generator(
        numbered, schema="k bigint", rows=60, per_timestep=10, partitions=2, name="numbers"
    )
    counts = rows.key_by("k").aggregate(n=rc.aggregates.count(), name="counts", tasks=1)
    stream = Harness(counts.write.memory("out"), settings=rc.Settings(tasks=2))
    sends = Doing(lambda _: rc.control.operation(SlowEverywhere(), seconds=60))
    process = stream.start(controllers=[sends])
    command(process, Called, "doing")
    process.run()
    assert HAPPENED == ["begin", "numbers", "numbers", "merge"]  # the time was over then
    state = seat(process, "doing").state
    assert state == {"replies": {"numbers": 2}, "failures": ["it took longer than 60 s"]}


def test_handlers_that_cannot_be_ended_leave_few_threads(monkeypatch):
    """A handler that is stuck in each of many tasks, while one of another controller goes on."""
    monkeypatch.setattr(limited, "GRACE_SECONDS", 0.05)
    Stubborn.free.clear()
    before = threading.active_count()
    stream = harness(steps=1, settings=rc.Settings(tasks=2 * limited.MOST_LEFT_OF_ONE))
    sends = Doing(lambda _: rc.control.operation(Stubborn(), seconds=0.05))
    process = stream.start(controllers=[sends, Watching()])
    command(process, Called, "doing")
    process.run()
    failures = seat(process, "doing").state["failures"]
    threads, left = threading.active_count() - before, [thread for _, thread in limited._left]
    Stubborn.free.set()
    for thread in left:
        thread.join(60)
    assert "caught" in HAPPENED
    assert len(left) == limited.MOST_LEFT_OF_ONE
    assert threads <= limited.MOST_LEFT_OF_ONE + 2  # those that wait for a call
    assert failures[0].startswith("it is not called: 8 calls before it are stuck in process")
    assert failures[1:] == ["it took longer than 0.05 s"]
    assert "counts" in seat(process, "watching").state["rows"]
    assert sum(table.num_rows for table in stream.outputs().values()) == 10


def test_a_value_is_as_it_is_read_again():
    assert jsonable({1: (2, None)}, 100, "it") == {"1": [2, None]}
    assert jsonable(nested(100), 1_000, "it") == nested(100)


@dataclass(frozen=True, kw_only=True)
class Count:
    rows: int


class Typed(OperatorHandler):
    """Replies with what is no `Count` in one of the sources, or everywhere."""

    reply_type = Count

    def __init__(self, everywhere: bool) -> None:
        self.everywhere = everywhere

    def on_complete(self, task: TaskView) -> Any:
        if self.everywhere or (task.operator == "numbers" and task.task == 0):
            HAPPENED.append("untyped")
            return {"rows": "many"}
        return Count(rows=task.rows_in)

    def merge(self, one: Count, other: Count) -> Count:
        return Count(rows=one.rows + other.rows)


class Untyped(Typed):
    """Merges to what is no `Count`."""

    def merge(self, one: Count, other: Count) -> Any:
        HAPPENED.append("untyped")
        return {"rows": "many"}


NO_COUNT = "TypeError: its reply is no Count: TypeError: expected int, found 'many'"


def typed(handler: OperatorHandler) -> tuple[dict[str, int], list[str], list[int]]:
    """Replies, failures and output of a stream with several tasks, and the failures of its controller: none."""
    rows = rc.read().generator(
        numbered, schema="k bigint", rows=30, per_timestep=10, partitions=3, name="numbers"
    )
    counts = rows.key_by("k").aggregate(n=rc.aggregates.count(), name="counts")
    stream = Harness(counts.write.memory("out"), settings=rc.Settings(tasks=3))

    def keep(control: Any, outcome: Any) -> None:
        replies = {name: reply.rows for name, reply in outcome.replies.items()}
        control.state = [replies, sorted({f.error.splitlines()[-1] for f in outcome.failures})]

    sends = Doing(lambda _: rc.control.operation(handler))
    sends.on_complete = keep  # type: ignore[method-assign]
    process = stream.start(controllers=[sends])
    command(process, Called, "doing")
    process.run()
    assert "untyped" in HAPPENED
    assert seat(process, "doing").failed == 0
    replies, failures = seat(process, "doing").state
    return replies, failures, [table.num_rows for table in stream.outputs().values()]


def test_a_reply_of_another_type_is_a_failed_one_and_the_others_count():
    replies, failures, rows = typed(Typed(everywhere=False))
    assert replies.keys() == {"numbers", "counts"}
    assert failures == [NO_COUNT]
    assert rows == [10] * 3


@pytest.mark.parametrize("handler", [Typed(everywhere=True), Untyped(everywhere=False)])
def test_replies_and_merges_of_another_type_are_failed_replies(handler):
    assert typed(handler) == ({}, [NO_COUNT], [10] * 3)


class Disposing(Replying):
    """Replies well, and fails after that."""

    def on_dispose(self) -> None:
        raise LookupError("not there")


def test_a_failure_at_the_end_leaves_the_reply():
    state, rows = replies(Disposing(lambda: HAPPENED.append("reply") or 1))
    assert "reply" in HAPPENED
    assert state["replies"] == {"memory": 1, "counts": 1}
    assert state["failures"] == ["LookupError: not there"]
    assert rows == [10] * 4
