"""Balance, in a running stream."""

from itertools import pairwise
from typing import Any

import pytest

import rechannel as rc
from rechannel.control.library.skew import skew_of
from rechannel.errors import RefusedError
from rechannel.testing.process import Process
from tests.unit.control.library.skewed import counting, keys_of

BINS = 8
EVEN = keys_of(lambda *_: True, bins=BINS, count=200)
OF_ONE_TASK = keys_of(lambda _, task: task == 0, bins=BINS, count=200)
OF_ONE_BIN = keys_of(lambda bin_, _: bin_ == 2, bins=BINS, count=200)


def run(batches: list[list[int]], **options: Any) -> Process:
    balance = rc.control.library.Balance(cool_down=4, **options)
    process = counting(batches, bins=BINS).start(controllers=[balance])
    process.run()
    return process


def skew(process: Process, batch: list[int]) -> float:
    """Of one batch, as the stream is now."""
    now = process.position
    routing = now.configuration.operators["counts"].routing
    rows = process.changes.view(now).facts.loads["counts"]
    assert len(rows) == routing.bins
    assert sum(rows) >= len(batch)
    return skew_of(routing, rows)


def kinds(process: Process) -> list[str]:
    return [record.change.kind for record in process.changes.coordination.records]


def log(process: Process) -> list[str]:
    return [line.text for line in process.controllers.board.seat("balance").log]


def test_an_even_stream_is_left_alone():
    process = run([EVEN] * 30)
    assert kinds(process) == []
    assert log(process) == []


def test_skew_that_arises_is_measured_and_mended_by_moving_bins():
    process = run([EVEN] * 10 + [OF_ONE_TASK] * 40)
    assert set(kinds(process)) == {"rebalance"}
    assert len(kinds(process)) <= 3  # the measured load still has old rows at first
    assert skew(process, OF_ONE_TASK) <= 0.3
    last = process.changes.coordination.records[-1].last_timestep
    assert last < 40  # it does not go on changing what is even
    assert process.changes.coordination.records[0].cause.startswith("controller 'balance': skew ")


def test_a_bin_that_holds_too_much_is_cut_and_its_parts_are_moved():
    process = run([OF_ONE_BIN] * 60)
    assert kinds(process)[:2] == ["split", "rebalance"]
    assert skew(process, OF_ONE_BIN) <= 0.1
    assert process.changes.coordination.records[-1].last_timestep < 40


def test_one_key_that_is_the_reason_is_reported_once_and_nothing_oscillates():
    process = run([[7] * 300 + EVEN[:20]] * 80)
    assert sum("the key 7 alone has 94% of the rows" in line for line in log(process)) == 1
    records = process.changes.coordination.records
    assert len(records) <= 4
    assert all(record.last_timestep < 40 for record in records)


def test_other_operators_are_left_alone():
    assert kinds(run([OF_ONE_TASK] * 30, operators=["another"])) == []


def test_tolerances_that_oscillate_are_refused():
    with pytest.raises(RefusedError, match="give 0 <= leave < enter"):
        rc.control.library.Balance(enter=0.1, leave=0.2)


class TakingBack(rc.control.Controller):
    """Undoes every rebalance."""

    trigger = rc.control.on("change_done")

    def on_init(self):
        return None

    def on_begin(self, control):
        last = control.changes[-1]
        if last.change.kind == "rebalance" and last.taken:
            routing = (
                control.configuration_at(last.taken[0].timestep - 1).operators["counts"].routing
            )
            back = rc.changes.assign_workload("counts", routing)
            control.reconfigure(back, reason="it was better before")


def test_what_somebody_else_takes_back_is_tried_again_less_and_less_often():
    balance = rc.control.library.Balance(cool_down=2)
    process = counting([OF_ONE_TASK] * 100, bins=BINS).start(controllers=[balance, TakingBack()])
    process.run()
    records = process.changes.coordination.records
    tried = [r.last_timestep for r in records if r.change.kind == "rebalance"]
    assert sum(r.change.kind == "assign_workload" for r in records) >= 4
    pauses = [later - earlier for earlier, later in pairwise(tried)]
    assert len(pauses) >= 3
    assert all(later > earlier for earlier, later in pairwise(pauses))
    assert pauses[-1] >= 4 * pauses[0]
