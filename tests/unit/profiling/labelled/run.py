"""Run one labelled application in this process: `python -m tests.unit.profiling.labelled.run NAME DIRECTORY`.

Spark writes its log to DIRECTORY, as it is. `--mended` runs the mended twin.
"""

from __future__ import annotations

import argparse
import contextlib
import importlib
import os
import sys
import tempfile
from pathlib import Path

import pyspark
from pyspark.sql import SparkSession

from tests.unit.profiling.labelled.held_out.labels import HELD_OUT
from tests.unit.profiling.labelled.labels import HOSTS, LABELS, Label
from tests.unit.profiling.spark_application import OPTIONS, cluster

PLAIN = {
    "spark.eventLog.rolling.enabled": "false",
    "spark.cores.max": "4",
    "spark.executor.cores": "2",
    "spark.driver.memory": "1g",
    "spark.sql.session.timeZone": "UTC",
    # Only some labels are about joins that are broadcast by themselves, or about tasks that wait for their data.
    "spark.locality.wait": "0s",
}

KNOWN = (*LABELS, *HELD_OUT)


def run(label: Label, logs: Path, *, mended: bool) -> None:
    """Run an application; its log goes to an empty directory."""
    os.environ.update(
        {
            "SPARK_HOME": str(Path(pyspark.__file__).parent),
            "SPARK_USER": "user",
            "SPARK_LOCAL_IP": "127.0.0.1",
            "SPARK_LOCAL_HOSTNAME": "localhost",
            "PYSPARK_PYTHON": sys.executable,
        }
    )
    family = importlib.import_module(f"tests.unit.profiling.labelled.{label.family}")
    with tempfile.TemporaryDirectory() as scratch, contextlib.ExitStack() as held:
        place = Path(scratch)
        os.chdir(place)
        prepare = getattr(family, f"prepare_{label.function}", None)
        if prepare:
            prepare(place, mended=mended)
        hosts = label.master == HOSTS
        builder = SparkSession.builder.appName("application").master(
            held.enter_context(cluster(cores=2)) if hosts else label.master
        )
        settings = {**OPTIONS, **PLAIN, **label.configuration(mended=mended)}
        places = {
            "spark.eventLog.dir": f"file://{logs}",
            "spark.local.dir": f"{place}/local",
            "spark.sql.warehouse.dir": f"{place}/warehouse",
        }
        for name, value in {**settings, **places}.items():
            builder = builder.config(name, value)
        spark = builder.getOrCreate()
        spark.sparkContext.setLogLevel("ERROR")
        getattr(family, label.function)(spark, place, mended=mended)
        spark.stop()


def main() -> None:
    """Run what is named."""
    options = argparse.ArgumentParser(description=__doc__.partition(":")[0])
    options.add_argument("name", choices=[label.name for label in KNOWN])
    options.add_argument("logs", type=Path)
    options.add_argument("--mended", action="store_true")
    given = options.parse_args()
    (label,) = [label for label in KNOWN if label.name == given.name]
    run(label, given.logs.absolute(), mended=given.mended)


if __name__ == "__main__":
    main()
