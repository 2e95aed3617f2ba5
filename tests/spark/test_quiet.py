"""A job on Spark that is stopped says nothing: no warnings, no tracebacks, nothing of Py4J or of the JVM."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

import rechannel as rc

pytestmark = pytest.mark.spark

PROGRAM = """
import sys

import pyarrow as pa

import rechannel as rc


def rows(start, stop):
    return pa.record_batch({"k": ["a" if number % 2 else "b" for number in range(start, stop)]})


spark = rc.session("local[2]")
stream = rc.read(spark).generator(rows, schema="k string", rows=200, per_timestep=100)
counts = stream.key_by("k").aggregate(n=rc.aggregates.count(), name="counts", tasks=2)
job = rc.Job("shop", counts.write.parquet(sys.argv[1] + "/out"), state=sys.argv[1] + "/state").start()
job.process_all_available()
print("stopping", file=sys.stderr, flush=True)
job.stop()
if sys.argv[2] == "session":
    spark.stop()
print(job.status.message, job.status.timestep)
"""


def stopped(directory, how):
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, str(directory), how],
        capture_output=True,
        text=True,
        check=False,
        env=os.environ | {"PYTHONPATH": str(Path(rc.__file__).parents[1])},
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout == "stopped 2\n"
    before, _, after = done.stderr.partition("stopping\n")
    return before, after


def test_a_job_that_is_stopped_says_nothing(tmp_path):
    before, after = stopped(tmp_path, "session")
    assert after == ""
    assert "Traceback" not in before
    assert "py4j" not in before.lower()


@pytest.mark.slow  # the test above has a session in every run
def test_nor_does_one_whose_session_ends_with_the_program(tmp_path):
    assert stopped(tmp_path, "program")[1] == ""
