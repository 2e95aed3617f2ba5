"""Whether a sum fits depends on what is summed, and on nothing else."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

import rechannel as rc
from rechannel import aggregates as agg
from rechannel.errors import TimestepError
from rechannel.model.configuration import Combine
from rechannel.settings import Settings
from rechannel.testing import Harness, script

TOP = 2**63 - 1
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
NUMBERS = st.sampled_from([TOP, TOP - 1, -TOP - 1, -TOP, 1, -1, 0, 2**62, -(2**62), None])
STEPS = st.lists(
    st.lists(st.tuples(st.sampled_from("ab"), NUMBERS), min_size=1, max_size=6),
    min_size=1,
    max_size=3,
)


def totals(harness):
    return {row["k"]: row["t"] for row in harness.state("op").to_pylist()}


def expected(steps, *, fits):
    """Totals of every timestep, until one does not fit."""
    known: dict[str, int | None] = {}
    for rows in steps:
        for key, value in rows:
            if value is not None:
                known[key] = (known.get(key) or 0) + value
            known.setdefault(key, None)
        if not all(total is None or fits(total) for total in known.values()):
            return None
    return known


def run(make, steps, columns, partitions, combine, tasks):
    source = script(columns, partitions=partitions)
    stream = make(rc.read().memory(source, name="src"))

    def configured(configuration):
        operator = replace(
            configuration.operators["op"], combine=combine, combining=combine is Combine.ON
        )
        return replace(configuration, operators={**configuration.operators, "op": operator})

    harness = Harness(stream, configure=configured, settings=Settings(tasks=tasks))
    process = harness.start()
    for rows in steps:
        source.push([{"k": k, "v": v, "at": EPOCH} for k, v in rows])
        process.run()
    return harness


@pytest.mark.parametrize("combine", [Combine.ON, Combine.OFF])
@given(steps=STEPS, partitions=st.integers(1, 3), tasks=st.integers(1, 2))
def test_integers_fit_if_their_total_does(combine, steps, partitions, tasks):
    def make(stream):
        flow = stream.key_by("k").aggregate(t=agg.sum("v"), n=agg.count(), name="op")
        return flow.write.memory("out", name="out")

    wanted = expected(steps, fits=lambda total: -(2**63) <= total < 2**63)
    columns = "k STRING, v BIGINT, at TIMESTAMP"
    if wanted is None:
        with pytest.raises(TimestepError, match=r"sum\('v'\) does not fit"):
            run(make, steps, columns, partitions, combine, tasks)
    else:
        assert totals(run(make, steps, columns, partitions, combine, tasks)) == wanted


@pytest.mark.parametrize("combine", [Combine.ON, Combine.OFF])
@given(steps=STEPS, partitions=st.integers(1, 3))
def test_decimals_fit_if_their_total_does(combine, steps, partitions):
    nines = 10**38 - 1
    shapes = {TOP: nines, TOP - 1: nines - 1, -TOP - 1: -nines, -TOP: 1 - nines}
    shapes |= {2**62: 10**37 * 6, -(2**62): -(10**37) * 6}
    shapes = {value: Decimal(digits) for value, digits in shapes.items()}
    given_ = [[(k, shapes.get(v, v)) for k, v in rows] for rows in steps]

    def make(stream):
        return stream.key_by("k").aggregate(t=agg.sum("v"), name="op").write.memory("out")

    exact = [[(k, None if v is None else int(v)) for k, v in rows] for rows in given_]
    wanted = expected(exact, fits=lambda total: abs(total) < 10**38)
    columns = "k STRING, v DECIMAL(38,0), at TIMESTAMP"
    if wanted is None:
        with pytest.raises(TimestepError, match=r"sum\('v'\) does not fit"):
            run(make, given_, columns, partitions, combine, 2)
    else:
        assert totals(run(make, given_, columns, partitions, combine, 2)) == wanted


WINDOWS = {
    "tumbling": (rc.windows.tumbling("10 seconds"), True),
    "sliding": (rc.windows.sliding("10 seconds", "5 seconds"), True),
    "sessions": (rc.windows.sessions("10 seconds"), True),
    "rows": (rc.windows.counting(6), False),
}


@pytest.mark.parametrize("how", WINDOWS)
@pytest.mark.parametrize("combine", [Combine.ON, Combine.OFF])
@pytest.mark.parametrize("partitions", [1, 2])
def test_windows_fit_if_their_totals_do(how, combine, partitions):
    window, timed = WINDOWS[how]

    def make(stream):
        stream = stream.event_time("at")
        flow = stream.key_by("k").window(window, **({"time_column": "at"} if timed else {}))
        return flow.aggregate(t=agg.sum("v"), name="op").write.memory("out", name="out")

    values = [TOP, 1, -TOP, TOP - 5, 7, -TOP]
    source = script("k STRING, v BIGINT, at TIMESTAMP", partitions=partitions)
    combined = {"combine": combine, "combining": combine is Combine.ON}

    def configured(configuration):
        operator = replace(configuration.operators["op"], **combined)
        return replace(configuration, operators={**configuration.operators, "op": operator})

    harness = Harness(
        make(rc.read().memory(source, name="src")), configure=configured, settings=Settings(tasks=2)
    )
    process = harness.start()
    for rows in (values[:3], values[3:]):
        source.push([{"k": "a", "v": v, "at": EPOCH + timedelta(seconds=20)} for v in rows])
    source.push([{"k": "b", "v": 0, "at": EPOCH + timedelta(minutes=10)}])
    process.run()
    shown = [r for t in harness.outputs("out").values() for r in t.to_pylist() if r["k"] == "a"]
    assert {row["t"] for row in shown} == {sum(values)}
