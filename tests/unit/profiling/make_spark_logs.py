"""Make the event logs in `spark_logs/` anew: `spark_application.py` in an environment for each minor of PySpark.

    python tests/unit/profiling/make_spark_logs.py [--environments DIRECTORY] [--only 4.3 3.5]

It takes ten minutes, 4 GB of disk while it runs, Java 17, and a `python3.10` for PySpark 3.3, which no later one runs.
Environments are made with uv, which finds that by itself, if it is installed. In a directory that is named they stay
for the next time.
"""

from __future__ import annotations

import argparse
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

HERE = Path(__file__).parent
LOGS = HERE / "spark_logs"
PYTHONS = {"3.3": "3.10"}
"""Minors of PySpark that this Python does not run, and what does."""
MINORS = ("3.3", "3.4", "3.5", "4.0", "4.1", "4.2", "4.3")
CLUSTERS = ("3.5", "4.3")
"""Minors that also lose executors, and speculate."""
CODECS = {
    "lost-3.5": "snappy",
    "speculation-3.5": "lz4",
    "speculation-4.3": "lzf",
}
"""Logs that are not in zstd, which packs best, so that every codec is there as Spark itself writes it."""


def environment(minor: str, place: Path) -> Path:
    """The interpreter of an environment with the newest patch of a minor; made if it is not there."""
    python = place / minor / "bin" / "python"
    if python.exists():
        return python
    wanted = PYTHONS.get(minor)
    requirement = f"pyspark=={minor}.*"
    if shutil.which("uv"):
        chosen = ["--python", wanted or sys.executable]
        _run("uv", "venv", "-q", *chosen, str(place / minor))
        _run("uv", "pip", "install", "-q", "--python", str(python), requirement)
    else:
        _run(f"python{wanted}" if wanted else sys.executable, "-m", "venv", str(place / minor))
        _run(str(python), "-m", "pip", "install", "-q", requirement)
    return python


def _run(*command: str) -> None:
    subprocess.run(command, check=True)


def main() -> None:
    """Make what is asked for."""
    options = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    options.add_argument("--environments", type=Path, help="where environments are, or stay")
    options.add_argument("--only", nargs="+", choices=MINORS, default=MINORS)
    given = options.parse_args()
    LOGS.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory() as scratch:
        place = given.environments or Path(scratch)
        for minor in given.only:
            python = environment(minor, place.absolute())
            cases = ("ordinary", "lost", "speculation") if minor in CLUSTERS else ("ordinary",)
            for case in cases:
                name = f"{case}-{minor}"
                print(f"{name} ...", flush=True)
                codec = CODECS.get(name, "zstd")
                _run(str(python), str(HERE / "spark_application.py"), case, str(LOGS / name), codec)


if __name__ == "__main__":
    main()
