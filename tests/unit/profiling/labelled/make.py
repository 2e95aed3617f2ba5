"""Make the event logs in `logs/` anew: `python -m tests.unit.profiling.labelled.make [NAME...]`.

Every application runs in a process of its own, one after the other: 20 minutes on two cores, with Java 17 and 4 GB of
memory. What Spark writes stays in the directory that `--raw` names, one directory for each run, and is not made again
while it is there. A run that fails is reported, and the next one begins.
"""

from __future__ import annotations

import argparse
import os
import shutil
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pyspark
import zstandard

from tests.unit.profiling.labelled.held_out.labels import HELD_OUT
from tests.unit.profiling.labelled.labels import LABELS, Label
from tests.unit.profiling.labelled.run import PLAIN
from tests.unit.profiling.labelled.scrub import Scrubber
from tests.unit.profiling.spark_application import OPTIONS

ROOT = Path(__file__).parents[4]
TIMEOUT = 180
"""Seconds that a run may take."""
QUICK_START = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
"""Options of Java: in half a minute the better compiler costs more than it gains."""
LARGEST = 150_000
"""Bytes of a log."""
LONG_FIELDS = ("physicalPlanDescription", "Accumulables")
"""What half of a held-out log would consist of, and no finding reads."""


def runs(names: list[str]) -> Iterator[tuple[Label, bool]]:
    """Every application, and its mended twin right after it, so that both meet the same conditions."""
    for label in (*LABELS, *HELD_OUT):
        if not names or label.name in names:
            yield label, False
            if label.mended is not None:
                yield label, True


def made(label: Label, raw: Path, *, mended: bool) -> Path:
    """Run an application unless its log is there already. Raises CalledProcessError and TimeoutExpired."""
    place = raw / (label.twin if mended else label.name)
    if place.exists():
        return place
    writing = place.with_name(f".{place.name}")
    shutil.rmtree(writing, ignore_errors=True)
    writing.mkdir(parents=True)
    subprocess.run(
        [
            *("nice", "-n", "5", sys.executable, "-m", "tests.unit.profiling.labelled.run"),
            *(label.name, str(writing), *(["--mended"] if mended else [])),
        ],
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": str(ROOT), "JAVA_TOOL_OPTIONS": QUICK_START},
        stderr=subprocess.PIPE,
        text=True,
        timeout=TIMEOUT,
        check=True,
    )
    return writing.rename(place)


def pack(log: Path, target: Path, scrubber: Scrubber) -> int:
    """Write a log clean and compressed. Returns its size in bytes."""
    with log.open("rb") as lines:
        clean = b"".join(scrubber.lines(lines))
    target.parent.mkdir(exist_ok=True)
    return target.write_bytes(zstandard.ZstdCompressor(level=19).compress(clean))


def scrubber(label: Label, *, mended: bool) -> Scrubber:
    """What the log of an application must not tell of this machine."""
    settings = {**OPTIONS, **PLAIN, **label.configuration(mended=mended)}
    return Scrubber(
        paths={
            str(Path(pyspark.__file__).parent): "/spark",
            str(Path(__file__).parent): "/app",
            str(ROOT): "/app",
            sys.prefix: "/environment",
            sys.base_prefix: "/python",
        },
        host=socket.gethostname(),
        settings={*settings, "spark.master", "spark.app.name"},
        left_out=LONG_FIELDS if label in HELD_OUT else (),
    )


def main() -> None:
    """Make what is asked for."""
    options = argparse.ArgumentParser(description=__doc__.partition(":")[0])
    options.add_argument("names", nargs="*", help="labels; all of them if none is named")
    options.add_argument(
        "--raw", type=Path, default=Path("build/labelled"), help="what Spark writes"
    )
    given = options.parse_args()
    failed = []
    for label, mended in runs(given.names):
        name = label.twin if mended else label.name
        try:
            (log,) = made(label, given.raw.absolute(), mended=mended).iterdir()
        except (subprocess.CalledProcessError, subprocess.TimeoutExpired) as error:
            failed.append(name)
            print(f"{name} failed: {str(error.stderr)[-2_000:]}", flush=True)
            continue
        size = pack(log, label.log(mended=mended), scrubber(label, mended=mended))
        print(f"{name}: {size:,} B{' TOO LARGE' if size > LARGEST else ''}", flush=True)
    if failed:
        sys.exit(f"failed: {', '.join(failed)}")


if __name__ == "__main__":
    main()
