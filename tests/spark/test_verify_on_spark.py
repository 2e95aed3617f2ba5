"""`rechannel verify --spark`: files that tasks of Spark check are judged as this process judges them."""

from __future__ import annotations

import json
import subprocess
import sys

import rechannel as rc
from rechannel import aggregates as agg
from rechannel.cli.inspect.damage import verify_everything
from rechannel.cli.inspect.directory import open_directory
from rechannel.engine.journal.reading import read_only
from rechannel.engine.journal.referenced import needed
from rechannel.engine.repair import checking
from rechannel.state.keys import SEGMENTS
from rechannel.testing import script

ROWS = 400
PATIENCE = 120


def quiet(kind, done, count):
    pass


def run_job(spark, tmp_path):
    """The state directory of a job that has ended."""
    source = script(
        "k bigint, v bigint", [[{"k": k, "v": n} for k in range(ROWS)] for n in range(4)]
    )
    rows = rc.read(spark).memory(source, name="rows")
    totals = rows.key_by("k").aggregate(total=agg.sum("v"), name="totals", tasks=4)
    job = rc.Job("verified", totals.write.memory("out"), state=tmp_path / "state").start()
    job.process_all_available(PATIENCE)
    job.stop()
    return tmp_path / "state"


def test_damage_is_found_in_tasks_of_spark(spark, tmp_path, monkeypatch):
    where = run_job(spark, tmp_path)
    directory = open_directory(where)
    monkeypatch.setattr(checking, "FILES_OF_A_TASK", 3)
    whole = verify_everything(directory, quiet)
    assert not whole.damages
    assert whole.files["segments"] > checking.FILES_OF_A_TASK  # several tasks have work
    assert verify_everything(directory, quiet, checking.OnSpark(spark)) == whole
    keys = sorted(key for key in needed(read_only(directory.store)) if key.startswith(SEGMENTS))
    flipped, gone = where / keys[0], where / keys[-1]
    data = bytearray(flipped.read_bytes())
    data[len(data) // 2] ^= 4
    flipped.write_bytes(data)
    gone.unlink()
    here = verify_everything(directory, quiet)
    assert [damage.file for damage in here.damages] == [keys[0], keys[-1]]
    assert verify_everything(directory, quiet, checking.OnSpark(spark)) == here


def test_the_command_starts_a_session_of_its_own(spark, tmp_path):
    where = run_job(spark, tmp_path)
    command = [sys.executable, "-m", "rechannel", "verify", where, "--json", "--spark", "local[1]"]
    ran = subprocess.run(
        command, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=True
    )
    facts = json.loads(ran.stdout)
    found = verify_everything(open_directory(where), quiet)
    assert facts["intact"]
    assert (facts["files"], facts["bytes"]) == (found.files, found.bytes)
