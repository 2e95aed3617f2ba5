"""Checks of a whole dataflow, resolution of columns, fingerprints."""

from __future__ import annotations

import pickle
import threading
from collections.abc import Sequence
from functools import partial
from typing import Any

import pyarrow as pa
import pytest
from pyspark import cloudpickle

from rechannel.dataflow.checks.check import check, fingerprint
from rechannel.dataflow.graph.nodes import Dataflow, Node
from rechannel.dataflow.graph.schema import resolve
from rechannel.dataflow.streams.aggregates import count, mean, sum
from rechannel.dataflow.streams.reader import read
from rechannel.dataflow.streams.stream import Stream, dataflow_of
from rechannel.errors import (
    DataflowError,
    DuplicateNameError,
    SerialisationError,
    UnknownColumnError,
)
from rechannel.model.ddl import schema_of
from tests.support.flights import COLUMNS, flights, same, unknown


def counted(stream: Stream, **more: Any) -> Stream:
    return stream.key_by("carrier").aggregate(n=count(), **more)


def test_a_good_dataflow_passes() -> None:
    stream = flights()
    kept = counted(stream.transform(lambda df: df), name="kept")
    seen = stream.key_by("origin").track(lambda k, s, rows: 1, state="n INT", name="seen")

    check(dataflow_of(kept.write.parquet("out"), seen, kept.write.console()), cloudpickle.dumps)


def test_branches_that_never_meet_are_fine() -> None:
    check(dataflow_of(flights().write.noop(), read().memory("n INT").write.noop()))


@pytest.mark.parametrize(
    "ends",
    [
        lambda: [
            counted(flights(), name="a").write.noop(),
            counted(flights("other"), name="a").write.console(),
        ],
        lambda: [
            counted(counted(flights())).write.noop(),
            counted(flights("flights")).write.noop(),
        ],
        lambda: [flights().write.noop(), flights().write.console()],
        lambda: [counted(flights("a"), name="a").write.noop()],
        lambda: [flights().write.memory("a", name="flights")],
    ],
    ids=["operators", "derived", "sources", "source and operator", "source and sink"],
)
def test_two_nodes_of_one_name(ends: Any) -> None:
    with pytest.raises(DuplicateNameError) as error:
        check(dataflow_of(*ends()))

    assert str(error.value).count(__file__) + str(error.value).count("flights.py:") == 2
    assert "name=" in str(error.value)


def test_two_operators_by_the_same_key_need_names() -> None:
    stream = flights()

    with pytest.raises(DuplicateNameError, match=r"flights\.aggregate-by-carrier"):
        check(dataflow_of(counted(stream).write.noop(), counted(stream).write.noop()))


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (lambda w: w.parquet("out", name="a"), lambda w: w.json("out/", name="b")),
        (lambda w: w.memory("t", name="a"), lambda w: w.memory("t", name="b")),
    ],
)
def test_two_sinks_in_one_place(one: Any, other: Any) -> None:
    stream = flights()

    with pytest.raises(DuplicateNameError, match="both write to"):
        check(dataflow_of(one(stream.write), other(stream.write)))


def test_a_stream_that_nobody_takes() -> None:
    with pytest.raises(DataflowError, match=r"transform 'flights.transform-1' .* no sink reads"):
        check(dataflow_of(flights().transform(lambda df: df)))


def test_an_empty_dataflow() -> None:
    with pytest.raises(DataflowError, match="empty"):
        check(dataflow_of())


class Lock:
    """Holds what cannot be pickled."""

    def __init__(self) -> None:
        self.lock = threading.Lock()

    def __call__(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        return batch

    def method(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        return batch


LOCK = threading.Lock()


def default(batch: pa.RecordBatch, lock: Any = LOCK) -> pa.RecordBatch:
    return batch


def enclosed() -> Any:
    lock = threading.Lock()

    def function(batch: pa.RecordBatch) -> pa.RecordBatch:
        with lock:
            return batch

    return function


def nested() -> Any:
    inner = enclosed()
    return lambda batch: inner(batch.slice(1))


def recursive() -> Any:
    lock = threading.Lock()

    def one(batch: Any) -> Any:
        return other(batch) if lock else None

    def other(batch: Any) -> Any:
        return one(batch)

    return other


@pytest.mark.parametrize(
    ("function", "blame"),
    [
        (enclosed(), "'lock' (lock)"),
        (nested(), "'inner.lock' (lock)"),
        (recursive(), "'one.lock' (lock)"),
        (partial(same, lock=threading.Lock()), "'lock' (lock)"),
        (partial(same, threading.Lock()), "'argument 0' (lock)"),
        (Lock(), "'lock' (lock)"),
        (Lock().method, "'self.lock' (lock)"),
    ],
)
def test_a_function_that_cannot_be_sent_and_its_variable(function: Any, blame: str) -> None:
    flow = flights().map_batches(function, name="mine").write.noop()

    with pytest.raises(SerialisationError) as error:
        check(dataflow_of(flow), cloudpickle.dumps)

    assert f"its variable {blame} cannot be pickled" in str(error.value)
    assert "map 'mine'" in str(error.value)
    assert __file__ in str(error.value)


def test_a_default_that_cannot_be_sent() -> None:
    function = eval("lambda batch, lock=LOCK: batch", {"LOCK": LOCK})

    with pytest.raises(SerialisationError, match="its variable 'lock'"):
        check(dataflow_of(flights().map_batches(function).write.noop()), cloudpickle.dumps)


@pytest.mark.parametrize(
    "build",
    [
        lambda f: flights().map(f, "n INT").write.noop(),
        lambda f: flights().flat_map(f, "n INT").write.noop(),
        lambda f: flights().filter(f).write.noop(),
        lambda f: flights().key_by("carrier").track(f, state="n INT"),
        lambda f: flights().key_by("carrier").track(same, state="n INT", init_state=f),
        lambda f: flights().key_by("carrier").track_batches(f, state="n INT"),
        lambda f: flights().key_by("carrier").running_reduce(f),
        lambda f: read().generator(f, schema="n INT", per_timestep=1).write.noop(),
    ],
    ids=["map", "flat_map", "filter", "track", "init_state", "batches", "reduce", "generator"],
)
def test_functions_for_workers_are_checked_wherever_they_are(build: Any) -> None:
    with pytest.raises(SerialisationError, match=r"enclosed.<locals>.function"):
        check(dataflow_of(build(enclosed())), cloudpickle.dumps)


def test_functions_for_the_driver_may_hold_anything() -> None:
    stream = flights().transform(enclosed())
    kept = counted(stream, preload=enclosed())

    check(dataflow_of(kept.write.for_each_batch(enclosed())), cloudpickle.dumps)


def test_without_a_pickler_functions_are_not_checked() -> None:
    check(dataflow_of(flights().map_batches(enclosed()).write.noop()))


def test_something_that_blames_nobody() -> None:
    def refuse(value: Any) -> bytes:
        if value is same:
            raise pickle.PicklingError(value)
        return b""

    with pytest.raises(SerialisationError, match="to workers: it cannot be pickled"):
        check(dataflow_of(flights().map_batches(same).write.noop()), refuse)


def engine(node: Node, inputs: Sequence[pa.Schema]) -> pa.Schema | None:
    """Knows that transforms keep columns, and what planes have."""
    return inputs[0] if inputs else schema_of(COLUMNS)


def test_columns_are_resolved_with_the_engine_s_help() -> None:
    asked = []

    def ask(node: Node, inputs: Sequence[pa.Schema]) -> pa.Schema | None:
        asked.append(node.name)
        return engine(node, inputs)

    stream = unknown().transform(lambda df: df)
    kept = stream.key_by("carrier").aggregate(n=count(), far=sum("distance"), name="kept")
    schemas = resolve(dataflow_of(kept.write.noop()), ask)

    assert asked == ["planes", "planes.transform-1"]
    assert schemas["planes.transform-1"] == schema_of(COLUMNS)
    assert schemas["kept"].names == ["carrier", "n", "far"]
    assert schemas["kept.noop"] == schemas["kept"]


@pytest.mark.parametrize(
    ("build", "kind", "part"),
    [
        (lambda s: s.key_by("carier").aggregate(n=count()), UnknownColumnError, "'carrier'?"),
        (lambda s: counted(s, far=sum("dist")), UnknownColumnError, "'distance'?"),
        (lambda s: counted(s, far=sum("origin")), DataflowError, "origin"),
        (lambda s: s.union(read().memory("a INT")), DataflowError, "does not have the columns"),
    ],
)
def test_what_the_engine_finds_out_is_checked(
    build: Any, kind: type[DataflowError], part: str
) -> None:
    flow = build(unknown()).write.noop()
    check(dataflow_of(flow))

    with pytest.raises(kind, match=part):
        resolve(dataflow_of(flow), engine)


def test_columns_that_nobody_finds_out() -> None:
    flow = unknown().map_batches(same).write.noop()

    with pytest.raises(DataflowError, match=r"source 'planes' .* could not be determined"):
        resolve(dataflow_of(flow), lambda node, inputs: None)


def test_two_columns_of_one_name_from_the_engine() -> None:
    twice = pa.schema([("a", pa.int32()), ("a", pa.int32())])

    with pytest.raises(DataflowError, match="two columns 'a'"):
        resolve(dataflow_of(unknown().write.noop()), lambda node, inputs: twice)


def test_a_raw_graph_is_checked_as_well() -> None:
    good = counted(flights(), name="kept")
    spec = good.node
    bad = type(spec)(
        name="bad",
        where=spec.where,
        upstream=flights().node,
        keys=("nothing",),
        spec=spec.spec,  # type: ignore[attr-defined]
    )

    with pytest.raises(UnknownColumnError, match="'nothing'"):
        check(Dataflow.of(bad))


def test_a_fingerprint_tells_what_state_depends_on() -> None:
    stream = flights()

    def of(kept: Stream) -> str:
        return fingerprint(dataflow_of(kept))[kept.name]

    def track(key: str = "carrier", **more: Any) -> Stream:
        arguments = {"state": "n INT", "name": "a", **more}
        return stream.key_by(key).track(lambda k, s, rows: 1, **arguments)

    same_state = stream.key_by("carrier").track_batches(lambda f: {}, state="n INT", name="a")
    averages = stream.key_by("carrier").aggregate(m=mean("distance"), name="a")
    totals = stream.key_by("carrier").aggregate(m=sum("distance"), name="a")

    assert of(track()) == "track(n int) by carrier"
    assert of(track()) == of(track(init_state=same)) == of(same_state)
    texts = [
        of(track()),
        of(track("origin")),
        of(track(state="n BIGINT")),
        of(track(timeout=5)),
        of(averages),
        of(totals),
        of(stream.key_by("carrier").running_reduce(same, name="a")),
    ]
    assert len(set(texts)) == len(texts)
    assert of(counted(stream)) == "aggregate(n=Count(column=None)) by carrier"


def test_with_columns_a_fingerprint_holds_their_types() -> None:
    def of(columns: str) -> str:
        stream = read().memory(columns).key_by("k").aggregate(s=sum("v"), name="a")
        dataflow = dataflow_of(stream)
        return fingerprint(dataflow, resolve(dataflow, engine))["a"]

    assert of("k INT, v INT").startswith("aggregate(s=Sum(column='v')) by k int keeping")
    assert of("k INT, v INT") == of("k INT, v INT, x STRING")
    assert len({of("k INT, v INT"), of("k STRING, v INT"), of("k INT, v DOUBLE")}) == 3
