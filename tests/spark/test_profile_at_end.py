"""Reports at the end of applications that spark-submit runs."""

import subprocess
import sys
from pathlib import Path

import pyspark
import pytest

pytestmark = [pytest.mark.slow, pytest.mark.spark]

SUBMIT = Path(pyspark.__file__).parent / "bin" / "spark-submit"
MAIN = "from rechannel.cli import main; main()"
PROGRAM = """
import sys
from pyspark.sql import SparkSession

spark = SparkSession.builder.appName("counts").getOrCreate()
print(spark.range(0, 1_000, 1, 4).selectExpr("id % 7 AS k").groupBy("k").count().count(), sys.argv[1:])
sys.exit(5)  # without a stop
"""
SETTINGS = (
    "--master",
    "local[2]",
    "--conf",
    "spark.ui.enabled=false",
    "--conf",
    "spark.sql.shuffle.partitions=2",
)


@pytest.fixture
def program(tmp_path, monkeypatch):
    (tmp_path / "app.py").write_text(PROGRAM)
    monkeypatch.setenv("PYSPARK_PYTHON", sys.executable)
    monkeypatch.setenv("SPARK_LOCAL_IP", "127.0.0.1")
    for name in ("SPARK_HOME", "SPARK_CONF_DIR", "PYSPARK_SUBMIT_ARGS", "PYSPARK_DRIVER_PYTHON"):
        monkeypatch.delenv(name, raising=False)
    return tmp_path / "app.py"


def run(*words):
    return subprocess.run(
        [str(word) for word in words], capture_output=True, text=True, timeout=300, check=False
    )


def test_the_command_runs_spark_submit(program, tmp_path):
    page = tmp_path / "why.html"
    command = [sys.executable, "-c", MAIN, "profile", "--run", "--html", page, "--"]
    done = run(*command, SUBMIT, *SETTINGS, program, "one", "--two")
    assert done.returncode == 5, done.stderr
    assert done.stdout == "7 ['one', '--two']\n"
    assert "counts, Spark " in done.stderr
    assert "counts, Spark " in page.read_text()


def test_spark_submit_runs_the_python_of_this_package(program, tmp_path):
    page, logs, python = tmp_path / "why.html", tmp_path / "logs", tmp_path / "rechannel-python"
    logs.mkdir()
    python.write_text(
        f'#!/bin/sh\nexec {sys.executable} -c "from rechannel.cli.driver import main; main()" "$@"\n'
    )
    python.chmod(0o755)
    ours = [
        "--conf",
        f"spark.pyspark.driver.python={python}",
        "--conf",
        f"spark.rechannel.report={page}",
    ]
    own = run(SUBMIT, *SETTINGS, *ours, program, "one", "--two")
    assert own.returncode == 5, own.stderr
    assert own.stdout == "7 ['one', '--two']\n"
    assert "counts, Spark " in page.read_text()
    page.unlink()
    # The user's log stays where it is to be.
    theirs = [
        "--conf",
        "spark.eventLog.enabled=true",
        "--conf",
        f"spark.eventLog.dir=file://{logs}",
    ]
    done = run(SUBMIT, *SETTINGS, *ours, *theirs, program)
    assert done.returncode == 5, done.stderr
    assert len(list(logs.iterdir())) == 1
    assert "counts, Spark " in page.read_text()
