"""Finished tables that a stream looks its rows up in, in a running job."""

from contextlib import suppress
from itertools import count

import pyarrow as pa
import pytest

import rechannel as rc
from rechannel.errors import DataflowError, RefusedError, UnknownColumnError
from rechannel.job import InProcess
from rechannel.state.segments.rows_file import read_rows
from rechannel.testing import Crash, Fault, FaultKind, Harness, ManualClock, MemoryStore, script

SETTINGS = rc.Settings(tasks=2, bins=4)


def table(**grades):
    return pa.table({"name": list(grades), "grade": list(grades.values())})


class Bench:
    """Rows with a name look up a grade."""

    def __init__(self, given, **options):
        self.table, self.rows = given, script("name STRING, n BIGINT")
        self.clock, self.numbers, self.store = ManualClock(), count(), MemoryStore()
        self.options = {"how": "left", "name": "graded", **options}
        self.build()

    def build(self):
        made = rc.read().memory(self.rows, name="rows")
        found = made.lookup(self.table, "name", **self.options)
        self.flows = [found.write.memory("out", name="out")]
        self.harness = Harness(self.flows, settings=SETTINGS, store=self.store, clock=self.clock)

    def step(self, *names):
        """Grades that a timestep showed."""
        self.rows.push([{"name": name, "n": next(self.numbers)} for name in names])
        self.harness.process.run()
        shown = self.harness.outputs("out")
        rows = shown[max(shown)].to_pylist()
        return [row["grade"] for row in sorted(rows, key=lambda row: row["n"])]

    def state(self):
        return {row["name"]: row["grade"] for row in self.harness.state("graded").to_pylist()}


def test_a_table_is_there_for_the_rows_of_the_first_timestep():
    bench = Bench(table(ann="new", bob="old"))
    bench.harness.start()
    assert bench.step("bob", "ann", "eve") == ["old", "new", None]
    assert bench.step("ann") == ["new"]
    assert bench.state() == {"ann": "new", "bob": "old"}
    assert bench.harness.outputs("out")[1].schema.names == ["name", "n", "grade"]


def test_it_is_read_again_at_a_border_and_keys_that_are_gone_are_gone():
    grades = {"ann": "new", "bob": "old"}
    bench = Bench(lambda: table(**grades), refresh="10 minutes")
    bench.harness.start()
    assert bench.step("ann", "bob", "eve") == ["new", "old", None]
    grades.update(ann="trusted", eve="new")
    del grades["bob"]
    bench.clock.advance(599_000)
    assert bench.step("ann", "bob", "eve") == ["new", "old", None]
    bench.clock.advance(1_000)
    assert bench.step("ann", "bob", "eve") == ["trusted", None, "new"]
    assert bench.state() == {"ann": "trusted", "eve": "new"}
    grades["bob"] = "back"
    bench.clock.advance(600_000)
    assert bench.step("bob") == ["back"]
    assert bench.state() == {"ann": "trusted", "bob": "back", "eve": "new"}


def test_a_refresh_is_a_timestep_of_its_own_when_nothing_comes():
    grades = {"ann": "new"}
    bench = Bench(lambda: table(**grades), refresh=1000)
    bench.harness.start()
    bench.step("ann")
    bench.clock.advance(1_000)
    bench.harness.process.run()
    assert len(bench.harness.outputs("out")) == 1
    grades["ann"] = "old"
    bench.clock.advance(1_000)
    bench.harness.process.run()
    assert bench.state() == {"ann": "old"}
    assert [shown.num_rows for shown in bench.harness.outputs("out").values()] == [1, 0]


def test_rows_are_looked_up_in_what_it_was_if_it_cannot_be_read_again():
    grades = {"ann": "new"}

    def read():
        if not grades:
            msg = "the files are being written"
            raise OSError(msg)
        return table(**grades)

    bench = Bench(read, refresh=1000)
    bench.harness.start()
    assert bench.step("ann") == ["new"]
    grades.clear()
    bench.clock.advance(1_000)
    assert bench.step("ann") == ["new"]
    grades["ann"] = "old"
    assert bench.step("ann") == ["new"]
    bench.clock.advance(1_000)
    assert bench.step("ann") == ["old"]


@pytest.mark.parametrize("writes", range(9))
@pytest.mark.parametrize("kind", [FaultKind.BEFORE, FaultKind.AFTER])
def test_what_a_driver_that_died_has_read_is_what_the_next_one_shows(writes, kind):
    """The table is another one whenever it is asked for."""
    numbers = count()
    bench = Bench(lambda: table(ann=f"grade {next(numbers)}"), refresh=10)
    bench.harness.start()
    bench.step("ann")
    bench.clock.advance(10)
    bench.rows.push([{"name": "ann", "n": 1}])
    read = None
    try:
        bench.harness.start(faults=[*([None] * writes), Fault(kind=kind)]).run()
    except Crash:
        for intent in bench.harness.journal_state().open_intents:
            ((key, _),) = intent.sources["graded.table"].end["rows"]
            read = read_rows(bench.store, key).column("grade")[0].as_py()
    bench.build()
    bench.harness.start().run()
    state = bench.state()["ann"]
    assert state == read or read is None
    assert bench.step("ann") == [state]
    offset = bench.harness.journal_state().offsets["graded.table"]
    assert offset["reads"] == 2


def test_a_restart_does_not_read_a_static_table_again():
    tables = iter([table(ann="new"), table(ann="other")])
    bench = Bench(table(ann="new"))
    bench.harness.start()
    assert bench.step("ann") == ["new"]
    bench.table = next(tables)
    bench.table = next(tables)
    bench.build()
    bench.harness.start()
    assert bench.step("ann") == ["new"]


@pytest.mark.parametrize("writes", range(8))
def test_a_restart_may_begin_to_read_it_again(writes):
    grades = {"ann": "new", "bob": "old"}
    bench = Bench(lambda: table(**grades))
    bench.rows.push([{"name": "ann", "n": 1}])
    with suppress(Crash):
        bench.harness.start(faults=[*([None] * writes), Fault(kind=FaultKind.AFTER)]).run()
    bench.options["refresh"] = "1 second"
    bench.build()
    bench.harness.start().run()
    del grades["bob"]
    bench.clock.advance(1_000)
    assert bench.step("ann", "bob") == ["new", None]
    assert bench.state() == {"ann": "new"}


def test_how_it_is_read_does_not_change_under_a_name():
    bench = Bench(lambda: table(ann="new"), refresh="1 minute")
    bench.harness.start()
    bench.step("ann")
    made = rc.read().memory(bench.rows, name="rows")
    other = made.lookup(table, "name", how="left", refresh="1 hour", name="graded")
    with pytest.raises(RefusedError, match=r"read every 60 s and would be.*read every 3600 s"):
        bench.harness.process.reconfigure(
            [rc.changes.change_dataflow(other.write.memory("out", name="out"))]
        )


def test_a_batch_reads_it_as_well():
    rows = script("name STRING, n BIGINT", [[{"name": "ann", "n": 1}, {"name": "eve", "n": 2}]])
    stream = rc.read().memory(rows, name="rows")
    graded = stream.lookup(table(ann="new"), "name", name="graded", refresh="1 second")
    with rc.run_batch(graded.write.memory("out", name="out"), in_process=InProcess()) as done:
        assert done.output().to_pylist() == [{"name": "ann", "n": 1, "grade": "new"}]


def test_what_cannot_be_is_refused():
    stream = rc.read().memory(script("name STRING, n BIGINT"), name="rows")
    grades = table(ann="new")
    for wrong, words in (
        (lambda: stream.lookup(grades, "name", refresh=0), "refresh"),
        (lambda: stream.lookup(grades, "nom"), "no column 'nom'"),
        (lambda: stream.lookup(grades, "n"), "no column 'n'"),
        (lambda: stream.lookup(grades, "name", by="at"), "no column 'at'"),
        (lambda: stream.lookup(stream, "name", refresh="1 second"), "a stream brings its changes"),
        (lambda: stream.lookup([1], "name"), "takes a stream, a DataFrame or a function"),
    ):
        with pytest.raises((DataflowError, UnknownColumnError), match=words):
            wrong()
