"""What a function needs in every worker process: when it is opened, kept and closed."""

import threading
from functools import partial

import pyarrow as pa
import pytest
from pyspark import cloudpickle

import rechannel as rc
from rechannel.dataflow.checks.check import check
from rechannel.dataflow.evolution.evolution import stream_of
from rechannel.dataflow.streams.resourced import with_resource
from rechannel.dataflow.streams.stream import dataflow_of
from rechannel.errors import DataflowError, SerialisationError, UserFunctionError
from rechannel.kernels.functions.resources import close_all
from rechannel.testing import Harness, script

EVENTS: list[str] = []


@pytest.fixture(autouse=True)
def events():
    close_all()
    EVENTS.clear()
    yield EVENTS
    close_all()


class Connection:
    """Says what happens to it."""

    def __init__(self, name):
        self.name = name
        EVENTS.append(f"open {name}")

    def close(self):
        EVENTS.append(f"close {self.name}")


def enriched(connection, batch):
    EVENTS.append(f"use {connection.name}")
    named = pa.array([connection.name] * batch.num_rows)
    return batch.append_column("source", named)


def lazily(connection, batch):
    yield enriched(connection, batch)


def shouting(connection, batch):
    made = enriched(connection, batch)
    return made.set_column(1, "source", pa.array(["!"] * batch.num_rows))


def open_a():
    return Connection("a")


def open_b():
    return Connection("b")


class Bench:
    def __init__(self, opens, function=enriched):
        self.rows = script("k BIGINT")
        self.harness = Harness(self.flow(opens, function), settings=rc.Settings(tasks=1, bins=1))
        self.harness.start()

    def flow(self, opens, function):
        stream = rc.read().memory(self.rows, name="rows")
        made = stream.map_batches(
            function, schema="k BIGINT, source STRING", name="calls", resource=opens
        )
        return made.write.memory("out", name="out")

    def step(self):
        self.harness.process.run()
        self.rows.push([{"k": 1}])
        self.harness.process.run()
        shown = self.harness.outputs("out")
        return shown[max(shown)].to_pylist()[0]["source"]


def test_a_resource_is_opened_when_it_is_first_needed_and_kept(events):
    bench = Bench(open_a)
    assert events == []
    assert [bench.step(), bench.step()] == ["a", "a"]
    assert events == ["open a", "use a", "use a"]
    close_all()
    assert events[-1] == "close a"
    assert bench.step() == "a"
    assert events[-2:] == ["open a", "use a"]


def test_rows_that_are_made_lazily_are_made_with_the_resource(events):
    made = with_resource(lazily, open_a).at("calls", pa.record_batch({"k": [1]}))
    close_all()
    assert events == ["open a", "use a", "close a"]
    assert [batch.column("source").to_pylist() for batch in made] == [["a"]]


def test_another_function_or_another_opening_closes_it(events):
    bench = Bench(open_a)
    bench.step()
    bench.harness.process.reconfigure([rc.changes.change_logic("calls", shouting)])
    assert bench.step() == "!"
    assert events == ["open a", "use a", "close a", "open a", "use a"]
    del events[:]
    bench.harness.process.reconfigure([rc.changes.change_dataflow(bench.flow(open_b, shouting))])
    assert bench.step() == "!"
    assert events == ["close a", "open b", "use b"]


def test_a_change_of_something_else_leaves_it_open(events):
    bench = Bench(open_a)
    bench.step()
    calls = stream_of(bench.harness.dataflow, "calls")
    bench.harness.process.reconfigure([rc.changes.add(calls.write.memory("more", name="more"))])
    bench.step()
    assert bench.harness.outputs("more")
    assert events.count("open a") == 1


def test_functions_that_do_the_same_share_one():
    made = [with_resource(lambda found, batch: (found, batch), dict).key for _ in range(2)]
    assert made[0] == made[1]
    assert with_resource(lambda found, batch: batch, dict).key != made[0]
    assert with_resource(lambda found, batch: (found, batch), list).key != made[0]

    class Odd:
        __hash__ = None

        def __call__(self, *given):
            return [self.__dict__, EVENTS]

    assert with_resource(enriched, open_a).key == with_resource(enriched, open_a).key
    odd = Odd()
    odd.secret = object()
    assert with_resource(odd, dict).key != with_resource(odd, dict).key


def test_functions_that_nobody_can_compare_do_not_share_one(events):
    class Secret:
        pass

    def opening(secret):
        return Connection("a") if secret else None

    first, second = (partial(opening, Secret()) for _ in range(2))
    bench = Bench(first)
    bench.step()
    bench.harness.process.reconfigure([rc.changes.change_dataflow(bench.flow(second, enriched))])
    bench.step()
    assert events == ["open a", "use a", "close a", "open a", "use a"]


def test_nodes_have_resources_of_their_own(events):
    rows = script("k BIGINT", [[{"k": 1}], [{"k": 2}]])
    stream = rc.read().memory(rows, name="rows")
    ends = [
        stream.map_batches(enriched, "k BIGINT, source STRING", resource=open_a).write.memory(
            name, name=name
        )
        for name in ("one", "other")
    ]
    Harness(ends).start().run()
    assert events.count("open a") == 2
    assert "close a" not in events


def test_what_cannot_be_opened_or_closed():
    def refuse():
        msg = "no route to host"
        raise OSError(msg)

    with pytest.raises(
        UserFunctionError, match=r"opening the resource of 'calls'.*no route to host"
    ):
        Bench(refuse).step()

    class Stubborn(Connection):
        def close(self):
            raise OSError

    bench = Bench(lambda: Stubborn("s"))
    bench.step()
    close_all()
    assert bench.step() == "s"


def test_an_error_of_the_function_names_the_node_and_the_next_attempt_opens_anew(events):
    def broken(connection, batch):
        msg = "bad answer"
        raise ValueError(msg)

    with pytest.raises(UserFunctionError, match="'calls' raised ValueError: bad answer"):
        Bench(open_a, broken).step()
    assert events == ["open a", "close a"]


def test_what_workers_cannot_be_sent_is_told_ahead():
    lock = threading.Lock()
    flow = Bench(open_a).flow(lambda: lock, enriched)
    with pytest.raises(SerialisationError, match=r"'calls'.*cannot be sent to workers.*'lock'"):
        check(dataflow_of(flow), cloudpickle.dumps)


def test_what_opens_is_a_function():
    stream = rc.read().memory(script("k BIGINT"), name="rows")
    with pytest.raises(DataflowError, match="resource must be a function that opens one, not str"):
        stream.map_batches(enriched, resource="postgres://")
