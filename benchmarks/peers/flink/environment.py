"""Flink's own virtual environment: made when it is first needed, kept beside the project's."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from benchmarks.process import REPOSITORY
from benchmarks.variant import report

ENVIRONMENT = REPOSITORY / ".venv-flink"
_STAMP = "rechannel-peer"


def home(version: str) -> Path:
    """Where Flink's ``bin`` and ``lib`` are; installs ``apache-flink==version`` if it is not there."""
    stamp = ENVIRONMENT / _STAMP
    if not stamp.exists() or stamp.read_text(encoding="utf-8") != version:
        report(f"installing apache-flink {version} (half a gigabyte)")
        stamp.unlink(missing_ok=True)
        run(sys.executable, "-m", "venv", str(ENVIRONMENT))
        run(str(python()), "-m", "pip", "install", "--quiet", f"apache-flink=={version}")
        stamp.write_text(version, encoding="utf-8")
    (found,) = ENVIRONMENT.glob("lib/python*/site-packages/pyflink")
    return found


def python() -> Path:
    """Its interpreter."""
    return ENVIRONMENT / "bin" / "python"


def run(*command: str) -> None:
    """Run to the end; what goes wrong is shown with the variant's failure."""
    subprocess.run(command, check=True, stdin=subprocess.DEVNULL, stdout=sys.stderr)
