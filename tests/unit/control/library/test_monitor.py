"""Monitor: its sketches, its figures, and the loop in a running stream."""

import json
import sys
from functools import reduce

import pytest

import rechannel as rc
from rechannel.control.board import shown
from rechannel.control.controller import MOST_METRICS, Control, Outcome
from rechannel.control.library.load import AskLoad, Figures, Load
from rechannel.control.library.monitor import MOST_BYTES, MOST_METRICS_OF
from rechannel.control.library.sketches import counted, heaviest_of, quantile, timed
from rechannel.errors import RefusedError
from rechannel.model.codec import encode
from rechannel.model.configuration import Configuration
from tests.unit.control.library.skewed import counting

HOT = [7] * 60 + [9] * 30 + list(range(100, 130))


def test_a_sketch_of_keys_is_exact_while_they_fit():
    sketch = reduce(counted, [[("a", 5), ("b", 2)], [("a", 1)]], "")
    assert [(k.key, k.rows, k.least) for k in heaviest_of(sketch, 5)] == [("a", 6, 6), ("b", 2, 2)]


def test_a_sketch_of_keys_is_bounded_and_keeps_the_heavy_ones():
    sketch = ""
    for timestep in range(50):
        keys = [(f"{timestep}-{n}", 1) for n in range(100)]
        sketch = counted(sketch, [("hot", 200), *keys])
    (hot,) = heaviest_of(sketch, 1)
    total = 50 * 300
    assert hot.key == "hot"
    assert hot.least <= 50 * 200 <= hot.rows
    assert hot.rows - hot.least <= 0.014 * total
    assert len(sketch) < 10_000


def test_times_have_quantiles():
    sketch = reduce(timed, map(float, range(1, 1_001)), "")
    assert quantile(sketch, 0.5) == pytest.approx(500, rel=0.1)
    assert quantile(sketch, 0.99) == pytest.approx(990, rel=0.05)
    assert len(sketch) < 5_000


def test_loads_of_tasks_are_merged_in_any_order():
    loads = [
        Load(
            tasks=1, rows=10, busiest_rows=10, ms={"a": 1}, heaviest=(("x", 4),), groups=((1, 9),)
        ),
        Load(tasks=1, rows=30, busiest_rows=30, slowest_ms=5, lag_ms=7, heaviest=(("y", 9),)),
        Load(tasks=1, rows=20, busiest_rows=20, ms={"a": 2, "b": 3}, heaviest=(("z", 5),)),
    ]
    merge = AskLoad(2).merge
    made = reduce(merge, loads)
    assert made == reduce(merge, reversed(loads))
    assert (made.tasks, made.rows, made.busiest_rows, made.slowest_ms) == (3, 60, 30, 5)
    assert (made.lag_ms, made.ms) == (7, {"a": 3, "b": 3})
    assert made.heaviest == (("y", 9), ("z", 5))
    assert made.groups == ((1, 9),)


def test_rows_of_a_key_that_several_tasks_share_are_added_up():
    one = Load(heaviest=(("x", 4), ("y", 3)), groups=((1, 5),))
    other = Load(heaviest=(("y", 3), ("z", 1)), groups=((1, 2), (2, 6)))
    made = AskLoad(2).merge(one, other)
    assert made.heaviest == (("y", 6), ("x", 4))
    assert made.groups == ((1, 7), (2, 6))


def test_figures_are_a_line():
    load = Load(
        tasks=2, rows=100, busiest_rows=75, slowest_ms=5, lag_ms=1_500, heaviest=(("7", 60),)
    )
    assert str(Figures().after(load, 3)) == (
        "100 rows in 2 tasks, the busiest has 75%; slowest task p50 5 ms, p99 5 ms;"
        " event time lags by 1,500 ms; heaviest keys 7 (60)"
    )


def test_it_watches_a_running_stream():
    monitor = rc.control.library.Monitor(operators=["counts"], timesteps=1, keys=2, log_every=5)
    process = counting([HOT] * 12, bins=8).start(controllers=[monitor])
    process.run()
    seat = process.controllers.board.seat("monitor")
    operations = seat.state["operations"]
    assert operations >= 3
    figures = seat.state["operators"]["counts"]
    assert figures["latest"]["rows"] == len(HOT)
    assert figures["latest"]["heaviest"] == [["7", 60], ["9", 30]]
    assert sum(rows for _, rows in figures["latest"]["groups"]) >= 60
    found = [(key["key"], key["rows"]) for key in figures["heaviest"]]
    assert found == [("7", 60 * operations), ("9", 30 * operations)]
    if operations >= 5:
        assert any("operator 'counts': 120 rows in 2 tasks" in line.text for line in seat.log)


class Running:
    """A monitor that completes one operation after the other. failed: replies that fail."""

    def __init__(self) -> None:
        self.monitor = rc.control.library.Monitor()
        self.state, self.metrics = self.monitor.on_init(), {}

    def complete(self, *operators: str, failed: int = 0) -> set[str]:
        """Return the operators whose figures are shown then."""
        control = Control(
            name="monitor",
            state=self.state,
            timestep=1,
            time_ms=1,
            configuration=Configuration(),
        )
        load = Load(tasks=1, rows=10, busiest_rows=10, slowest_ms=5, heaviest=(("x" * 100, 4),))
        replies = dict.fromkeys(operators, load)
        outcome = Outcome(operation="m-1.1", timestep=1, replies=replies, failed=failed)
        self.monitor.on_complete(control, outcome)
        self.state, self.metrics = control.state, shown(self.metrics, control.metrics)
        assert sum(map(len, self.metrics.values())) <= MOST_METRICS
        return {name for values in self.metrics.values() for name in values}


def test_it_shows_figures_of_the_first_operators_by_name():
    running = Running()
    names = [f"op{number:03}" for number in range(200)]
    assert running.complete(*reversed(names)) == set(names[:MOST_METRICS_OF])
    assert list(running.state.operators) == names
    assert running.complete("first", *names[1:]) == {"first", *names[1:MOST_METRICS_OF]}


def test_figures_of_operators_that_are_gone_are_taken_away():
    running = Running()
    for number in range(60):
        names = {f"old{number}", "new"}
        assert running.complete(*names) == names
    assert set(running.state.operators) == {"old59", "new"}
    assert running.complete("new", failed=1) == {"old59", "new"}  # it may be the one that failed
    assert running.complete("new") == {"new"}


def test_its_state_is_bounded():
    running = Running()
    names = [f"op{number:04}" for number in range(3_000)]
    running.complete(*names)
    assert 0 < len(running.state.operators) < 3_000
    assert len(json.dumps(encode(running.state))) < 1.1 * MOST_BYTES


def test_it_says_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "datasketches", None)
    with pytest.raises(RefusedError, match=r"pip install 'rechannel\[control\]'"):
        rc.control.library.Monitor()


@pytest.mark.parametrize("wrong", [{"timesteps": 0}, {"keys": 101}, {"log_every": 0}])
def test_arguments_out_of_range_are_refused(wrong):
    with pytest.raises(RefusedError, match="give timesteps and log_every >= 1"):
        rc.control.library.Monitor(**wrong)
