"""`spark-submit` as a process, and the program that it runs."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path

import pyspark

from rechannel.cli import launcher
from tests.spark.children import ROOT
from tests.spark.programs import PATIENCE
from tests.support.jvms import SHORT_LIVED

SUBMIT = Path(sys.executable).parent / "spark-submit"

PROGRAM = """
import os
import sys

import pyarrow as pa

import rechannel as rc
from rechannel import aggregates as agg

ROWS = {rows}


def rows(start: int, stop: int) -> pa.RecordBatch:
    return pa.record_batch({{"k": [n % 7 for n in range(start, stop)], "v": range(start, stop)}})


def where(batch: pa.RecordBatch) -> pa.RecordBatch:
    import pyarrow
    import rechannel

    found = [sys.executable, sys.prefix, pyarrow.__file__, rechannel.__file__, str(os.getppid())]
    return pa.record_batch({{"k": batch["k"], "v": batch["v"], "at": ["\\t".join(found)] * batch.num_rows}})


spark = rc.session({session})
stream = rc.read(spark).generator(
    rows, schema="k bigint, v bigint", rows=ROWS, per_timestep={per_timestep}, name="numbers"{more}
)
placed = stream.map_batches(where, schema="k bigint, v bigint, at string", name="placed")
sums = placed.key_by("k").aggregate(
    n=agg.count(), s=agg.sum("v"), at=agg.last("at"), name="sums", tasks=2
)
job = rc.Job(
    "sums",
    sums.write.parquet({out!r}),
    state={state!r},
    settings=rc.Settings(durability=rc.Durability.PROCESS, interval_ms={interval}),
)
"""


def program(
    place: Path,
    *,
    rows: int | None = 6_000,
    per_timestep: int = 1_000,
    interval: int = 0,
    session: str = "",
    more: str = "",
) -> Path:
    """Write the program; its path. rows: None = without end. session: arguments of `rc.session`."""
    path = place / "sums.py"
    text = PROGRAM.format(
        rows=rows,
        per_timestep=per_timestep,
        interval=interval,
        session=session,
        more=more,
        out=str(place / "out"),
        state=str(place / "state"),
    )
    path.write_text(text)
    return path


class Submitted:
    """A `spark-submit` that runs the command line of this package."""

    def __init__(
        self,
        place: Path,
        options: list[str],
        arguments: list[str],
        environment: dict[str, str | None] | None = None,
        *,
        plain: bool = False,
    ) -> None:
        """Start it. options: of spark-submit. arguments: of `rechannel`. environment: changes; None removes.

        plain: without spark-submit.
        """
        self.place = place
        self.log = place / "submit.log"
        beside = {"SPARK_LOCAL_IP": "127.0.0.1", "SPARK_LOCAL_DIRS": str(place / "local")}
        found: dict[str, str | None] = {
            **{k: v for k, v in os.environ.items() if not k.startswith("PYSPARK")},
            "PYTHONPATH": os.pathsep.join([str(ROOT / "src"), str(ROOT)]),
            "SPARK_HOME": str(Path(pyspark.__file__).parent),
            "PYSPARK_PYTHON": sys.executable,
            **beside,
            **(environment or {}),
        }
        clean = {name: value for name, value in found.items() if value is not None}
        command = [str(SUBMIT), "--driver-memory", "600m", "--driver-java-options", SHORT_LIVED]
        if plain:
            command = [sys.executable]
        command += [*options, launcher.__file__, *arguments]
        with self.log.open("w") as log:
            self.process = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                env=clean,
                cwd=place,
                start_new_session=True,
            )

    def said(self) -> str:
        """What it has printed."""
        return self.log.read_text(errors="replace")

    def until_said(self, text: str) -> None:
        """Wait until it has printed something."""
        end = time.monotonic() + PATIENCE
        while text not in self.said():
            assert self.process.poll() is None, self.said()[-4_000:]
            assert time.monotonic() < end, self.said()[-4_000:]
            time.sleep(0.05)

    def until_committed(self, timesteps: int) -> None:
        """Wait until this many timesteps are published."""
        end = time.monotonic() + PATIENCE
        while len(list((self.place / "out").glob("timestep=*"))) < timesteps:
            assert self.process.poll() is None, self.said()[-4_000:]
            assert time.monotonic() < end, self.said()[-4_000:]
            time.sleep(0.05)

    def send(self, number: int) -> None:
        """Send a signal to the JVM, and to nothing else."""
        self.process.send_signal(number)

    def send_to_all(self, number: int) -> None:
        """Send a signal to the JVM, to the Python of the driver, and to Python workers."""
        os.killpg(self.process.pid, number)

    def ended(self) -> int:
        """Wait for the end; the exit code."""
        return self.process.wait(PATIENCE)

    def kill(self) -> None:
        """End everything that is left of it."""
        with suppress(ProcessLookupError):
            os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait(PATIENCE)
