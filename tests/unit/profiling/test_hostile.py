"""No log takes more memory or time than the tasks in it."""

import subprocess
import sys
from dataclasses import replace

import pytest

from rechannel.profiling.model.analysis import ProfileOptions, analyse_pieces
from rechannel.profiling.model.trace import NS
from rechannel.profiling.reading import analyse_file, open_file
from tests.support.bounded import ROOT, profiled_within
from tests.unit.profiling.hostile import DAY, hostile, job, over, task, with_
from tests.unit.profiling.logs import small

LOGS = hostile()


@pytest.fixture(scope="module")
def found(tmp_path_factory):
    """What came of every log, by name, in one gigabyte of address space."""
    place, files = tmp_path_factory.mktemp("hostile"), {}
    for number, (name, lines) in enumerate(LOGS.items()):
        files[name] = place / f"app-{number}"
        files[name].write_bytes(b"".join(lines))
        assert files[name].stat().st_size < 5_000_000
    return dict(zip(LOGS, profiled_within(files.values()), strict=True))


def test_the_address_space_is_really_bounded():
    code = "from tests.support.bounded import limit; limit(1 << 28); bytearray(1 << 29)"
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert done.returncode == 1
    assert done.stderr.splitlines()[-1] == "MemoryError"


@pytest.mark.parametrize("name", LOGS)
def test_hostile_logs(found, name):
    assert "failed" not in found[name], found[name].get("failed")
    assert "refused" not in found[name]
    # Some windows per event, and no worker that no task needs.
    events = len(LOGS[name])
    assert found[name]["windows"] <= 130 * events
    assert found[name]["workers"] <= 70 * events


@pytest.mark.parametrize("window", [None, 1.0])
def test_thirty_idle_days_cost_what_two_tasks_cost(tmp_path, window):
    file = tmp_path / "app-1"
    file.write_bytes(b"".join(with_(task(9, 30 * DAY, 30 * DAY + 400))))
    made = analyse_file(file, ProfileOptions(window=window))
    assert len(made.profile.windows) <= 5
    assert len(made.pieces) == 1
    assert sum(end - start for start, end in made.pieces.windows) == (30 * DAY + 400) * NS // 1_000
    assert made.notes == []


def test_jobs_with_hours_between_them_are_a_few_windows_each(tmp_path):
    file, hour = tmp_path / "app-1", 3_600_000
    rounds = [
        (job(5 + n, n * hour), task(9 + n, n * hour, n * hour + 900), over(5 + n, n * hour + 950))
        for n in range(50)
    ]
    file.write_bytes(b"".join(with_(*(line for lines in rounds for line in lines))))
    for window in (None, 1.0):
        made = analyse_file(file, ProfileOptions(window=window))
        assert len(made.profile.windows) <= 10 * len(rounds)


def test_notes_on_windows_are_notes_of_the_analysis(tmp_path):
    file = tmp_path / "app-1"
    file.write_bytes(b"".join(small()))
    pieces = replace(analyse_file(file).pieces, notes=["windows are longer"])
    assert analyse_pieces(open_file(file), pieces).notes == ["windows are longer"]
