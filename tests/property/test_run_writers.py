"""A run holds each full key once, whoever writes it: tasks, merges, migrations, moves of rows of one key.

`collect` relies on it: of rows that lie in one run alone it removes no duplicates. Random dataflows run under random
schedules of faults and changes, and each run is looked at when it is written. The other tests of this folder that run
schedules look at theirs, too.
"""

from __future__ import annotations

from random import Random

import pyarrow as pa
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

from tests.property.test_process import simulate as simulate_processes
from tests.property.test_simulation import run_schedule
from tests.property.written_once import each_run_looked_at, repeated

SCHEDULES = 8


@settings(max_examples=SCHEDULES, deadline=None, database=None, phases=[Phase.generate])
@given(st.integers(0, 100_000))
def test_no_operator_writes_a_key_twice_into_a_run(seed: int) -> None:
    with each_run_looked_at():
        run_schedule(Random(seed), None)


@settings(max_examples=SCHEDULES, deadline=None, database=None, phases=[Phase.generate])
@given(st.integers(0, 100_000))
def test_no_process_function_writes_a_key_twice_into_a_run(seed: int) -> None:
    with each_run_looked_at() as seen:
        simulate_processes(seed)
    assert seen


def test_a_key_that_is_there_twice_would_be_found() -> None:
    names = pa.array(["a", "b", "b"])
    assert repeated([names, pa.array([1, 2, 2])]) == [("'b'", "2")]
    assert repeated([names, pa.array([1, 2, 3])]) == []
    assert repeated([pa.array([0.0, -0.0, 1.0])]) == [("0.0",)]
    assert repeated([pa.array([float("nan")] * 2)]) == [("nan",)]
