"""Packaged dependencies: executors of a real cluster run the Python of an archive, and find a wheel."""

from __future__ import annotations

import sys

import pyarrow.parquet as pq
import pytest

from rechannel.testing.loopback import Host, loopback
from tests.real.components.packed import as_py_files, built_wheel, packed
from tests.spark.submitting import Submitted, program
from tests.support.jvms import SHORT_LIVED

pytestmark = [pytest.mark.real, pytest.mark.slow]

CONF = {
    "spark.ui.enabled": "false",
    "spark.executor.memory": "600m",
    "spark.executor.extraJavaOptions": SHORT_LIVED,
    "spark.driver.host": "127.0.0.1",
}


@pytest.fixture
def cluster(tmp_path):
    # Workers inherit what tests have: nothing of that is to lead to this checkout.
    hidden = {"PYTHONPATH": "", "PYSPARK_PYTHON": "", "PYSPARK_DRIVER_PYTHON": ""}
    with loopback(tmp_path / "cluster", [Host(address="127.0.0.2")], hidden) as made:
        yield made


def submitted(place, cluster, options, conf):
    """Run the program to its end; where its tasks ran: executable, prefix, pyarrow, rechannel."""
    settings = [
        f"--conf={key}={value}"
        for key, value in {**CONF, "spark.pyspark.driver.python": sys.executable, **conf}.items()
    ]
    done = Submitted(
        place,
        ["--master", cluster.url, *settings, *options],
        ["run", str(program(place, rows=3_000)), "--until-idle"],
        {"PYSPARK_PYTHON": None},
    )
    try:
        assert done.ended() == 0, done.said()[-4_000:]
    finally:
        done.kill()
    found = set()
    rows = 0
    for file in (place / "out").glob("timestep=*/*.parquet"):
        for row in pq.ParquetFile(file).read().to_pylist():
            found.add(row["at"].rpartition("\t")[0])
            rows += row["n"]
    assert rows
    return [each.split("\t") for each in found]


def test_executors_run_the_packed_python(tmp_path, cluster):
    places = submitted(
        tmp_path,
        cluster,
        ["--archives", f"{packed()}#environment"],
        {"spark.pyspark.python": "./environment/bin/python"},
    )
    work = str(tmp_path / "cluster" / "127.0.0.2")
    for executable, prefix, arrow, rechannel in places:
        assert prefix.startswith(work), prefix
        assert prefix.endswith("/environment")
        assert executable == f"{prefix}/bin/python"
        assert arrow.startswith(f"{prefix}/lib/")
        assert rechannel.startswith(f"{prefix}/lib/")


def test_executors_find_a_wheel(tmp_path, cluster):
    """The dependencies are on the hosts; the package itself comes with the job."""
    wheel = as_py_files(built_wheel(), tmp_path)
    # An interpreter that has the dependencies: the one of the tests, which this package is taken from.
    places = submitted(
        tmp_path,
        cluster,
        ["--py-files", str(wheel)],
        {"spark.pyspark.python": sys.executable},
    )
    for *_, rechannel in places:
        assert f"{wheel.name}/rechannel/" in rechannel, rechannel
