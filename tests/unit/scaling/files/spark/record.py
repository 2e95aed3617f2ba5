"""Pack the logs of a run of `rechannel bench scale-logs --set 'keep="KEPT"'`: `python -m ...record KEPT`.

The logs of the first runs go to docs/examples, as small as may be; what the second runs measured goes to
`measured.json`, beside this file.
"""

from __future__ import annotations

import json
import socket
import sys
from pathlib import Path

import pyspark

import rechannel as rc
from benchmarks.scale_logs import BENCHMARK
from rechannel.scaling.files.spark.advice import LogAdvice
from tests.unit.profiling.labelled.make import pack
from tests.unit.profiling.labelled.scrub import Scrubber

ROOT = Path(__file__).parents[5]
EXAMPLES = ROOT / "docs" / "examples"
MEASURED = Path(__file__).with_name("measured.json")
LEFT_OUT = ("physicalPlanDescription", "Accumulables")
SETTINGS = ("spark.master", "spark.app.name", "spark.sql.shuffle.partitions")


def example(case: str) -> Path:
    """The log of the first run of a case."""
    return EXAMPLES / f"counts-{case}.zstd"


def main() -> None:
    """Pack the logs of a directory."""
    kept = Path(sys.argv[1])
    scrubber = Scrubber(
        paths={
            str(Path(pyspark.__file__).parent): "/spark",
            str(ROOT): "/app",
            sys.prefix: "/environment",
            sys.base_prefix: "/python",
        },
        host=socket.gethostname(),
        settings=SETTINGS,
        left_out=LEFT_OUT,
    )
    interval = float(BENCHMARK.defaults["interval"])
    found = {}
    for case in BENCHMARK.defaults["cases"]:
        size = pack(kept / case, example(case), scrubber)
        made = rc.scaling_advice(kept / f"{case}-advised", interval=interval)
        if not isinstance(made, LogAdvice):
            msg = f"{kept / case} is no event log"
            raise TypeError(msg)
        (applied,) = made.queries
        found[case] = {
            "cores": applied.now.cores,
            "partitions": applied.now.partitions,
            "batches": applied.batches,
            "measured_ms": applied.measured_ms,
        }
        print(f"{case}: {size:,} B, {found[case]}")
    MEASURED.write_text(json.dumps(found, indent=2) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
