"""Virtual environments of peers from PyPI: made when they are first needed, kept beside the project's."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from benchmarks.process import REPOSITORY
from benchmarks.variant import report

_STAMP = "rechannel-peer"


def installed(environment: Path, *requirements: str) -> Path:
    """The interpreter of an environment that has exactly these packages; makes it if it is not there."""
    wanted, stamp, python = " ".join(requirements), environment / _STAMP, python_of(environment)
    if not stamp.exists() or stamp.read_text(encoding="utf-8") != wanted:
        report(f"installing {wanted}")
        stamp.unlink(missing_ok=True)
        run(sys.executable, "-m", "venv", str(environment))
        run(str(python), "-m", "pip", "install", "--quiet", *requirements)
        stamp.write_text(wanted, encoding="utf-8")
    return python


def python_of(environment: Path) -> Path:
    """Its interpreter."""
    return environment / "bin" / "python"


def beside(name: str) -> Path:
    """Where the environment of a peer lies."""
    return REPOSITORY / f".venv-{name}"


def run(*command: str) -> None:
    """Run to the end; what goes wrong is shown with the variant's failure."""
    subprocess.run(command, check=True, stdin=subprocess.DEVNULL, stdout=sys.stderr)
