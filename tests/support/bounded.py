"""Profiles files in a process of little address space, which ends if a file takes too much time.

Reads a path per line from standard input; writes a JSON object for each: `windows` and `workers`,
or `refused`, or `failed` with a traceback.
"""

from __future__ import annotations

import faulthandler
import json
import os
import resource
import signal
import subprocess
import sys
import traceback
from collections.abc import Iterable
from pathlib import Path
from typing import Any

SPACE, SECONDS = 1 << 30, 20
"""Bytes of address space of a process, and seconds of its CPU for a file."""
# Each thread of a pool takes address space for its stack and its memory.
THREADS = {
    "POLARS_MAX_THREADS": "1",
    "RAYON_NUM_THREADS": "1",
    "NUMBA_NUM_THREADS": "1",
    "OPENBLAS_NUM_THREADS": "1",
    "MALLOC_ARENA_MAX": "1",
}
ROOT = Path(__file__).parents[2]


def profiled_within(files: Iterable[Path], space: int = SPACE) -> list[dict[str, Any]]:
    """Profile files in a process of its own."""
    done = subprocess.run(
        [sys.executable, "-m", "tests.support.bounded", str(space)],
        input="".join(f"{file}\n" for file in files),
        capture_output=True,
        text=True,
        cwd=ROOT,
        env={**os.environ, **THREADS, "PYTHONPATH": f"{ROOT / 'src'}:{ROOT}"},
        check=False,
    )
    if done.returncode:
        msg = f"exit code {done.returncode} after {done.stdout[-300:]}: {done.stderr[-3_000:]}"
        raise RuntimeError(msg)
    return [json.loads(line) for line in done.stdout.splitlines()]


def limit(space: int) -> None:
    """Bound the address space of this process."""
    resource.setrlimit(resource.RLIMIT_AS, (space, space))


def warm() -> None:
    """Profile ordinary logs: what is compiled, once, takes time and memory of its own."""
    for name in ("ordinary-4.3", "lost-4.3", "speculation-4.3"):
        (log,) = (ROOT / "tests" / "unit" / "profiling" / "spark_logs").glob(f"{name}*")
        profiled(log, seconds=0)


def profiled(file: Path, window: float | None = None, seconds: float = SECONDS) -> dict[str, Any]:
    """Profile a file and make everything that is shown of it.

    window: seconds. seconds: of CPU, after which the process ends with a traceback; 0 for no bound.
    """
    from rechannel.errors import TraceError
    from rechannel.profiling.model.analysis import ProfileOptions
    from rechannel.profiling.reading import analyse_file
    from rechannel.profiling.report.page import write_page
    from rechannel.profiling.report.record import as_record

    faulthandler.register(signal.SIGPROF, chain=True)
    signal.setitimer(signal.ITIMER_PROF, seconds)
    try:
        made = analyse_file(file, ProfileOptions(window=window))
        json.dumps(as_record(made, 20), allow_nan=False)
        write_page(made, os.devnull)
        names = made.profile.names
        return {
            "windows": len(made.profile.windows),
            "workers": len(names.workers),
            "notes": made.notes,
        }
    except TraceError as error:
        return {"refused": str(error)}
    except Exception:
        return {"failed": traceback.format_exc()}
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)


if __name__ == "__main__":
    warm()
    limit(int(sys.argv[1]))
    for path in sys.stdin.read().splitlines():
        print(json.dumps({"file": path, **profiled(Path(path))}), flush=True)
