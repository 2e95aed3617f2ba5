"""A virtual environment with this package, as an archive that `--archives` takes, and its wheel as `--py-files`."""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import sys
import zipfile
from importlib.metadata import requires
from pathlib import Path

from packaging.requirements import Requirement

from tests.real.components.making import FOLDER, ROOT

PACKER = "venv-pack==0.2.0"
SECONDS = 900.0


def packed() -> Path:
    """Return the archive; the first call makes it. PySpark is not in it: executors bring their own."""
    wheel = built_wheel()
    needed = sorted(dependencies())
    known = hashlib.sha256("\n".join([wheel.name, _digest(wheel), *needed]).encode()).hexdigest()
    archive = FOLDER / f"packed-{known[:16]}.tar.gz"
    if archive.exists():
        return archive
    making = FOLDER / f".packed-{os.getpid()}"
    shutil.rmtree(making, ignore_errors=True)
    environment, tools = making / "environment", making / "tools"
    _run(sys.executable, "-m", "venv", "--without-pip", str(environment))
    pip = [sys.executable, "-m", "pip"]
    python = str(environment / "bin" / "python")
    _run(*pip, "--python", python, "install", "-q", "--no-deps", str(wheel))
    _run(*pip, "--python", python, "install", "-q", *needed)
    _run(*pip, "install", "-q", "--target", str(tools), PACKER)
    part = making / "environment.tar.gz"
    command = ["-m", "venv_pack", "-q", "-p", str(environment), "-o", str(part)]
    _run(sys.executable, *command, PYTHONPATH=str(tools))
    part.rename(archive)
    shutil.rmtree(making)
    return archive


def dependencies() -> list[str]:
    """What this package needs, without PySpark."""
    found = [Requirement(line) for line in requires("rechannel") or ()]
    return [
        f"{each.name}{each.specifier}"
        for each in found
        if each.name != "pyspark" and (each.marker is None or each.marker.evaluate({"extra": ""}))
    ]


def built_wheel() -> Path:
    """Build the wheel of this checkout."""
    place = FOLDER / f".wheel-{os.getpid()}"
    shutil.rmtree(place, ignore_errors=True)
    _run(sys.executable, "-m", "pip", "wheel", "-q", "--no-deps", "-w", str(place), str(ROOT))
    (wheel,) = place.glob("*.whl")
    return wheel


def as_py_files(wheel: Path, place: Path) -> Path:
    """Copy a wheel under a name that `--py-files` takes."""
    archive = place / wheel.with_suffix(".zip").name
    shutil.copy(wheel, archive)
    return archive


def _digest(wheel: Path) -> str:
    """Of what is in it: a wheel that is built again has other times."""
    with zipfile.ZipFile(wheel) as archive:
        parts = sorted(f"{each.filename} {each.CRC}" for each in archive.infolist())
    return hashlib.sha256("\n".join(parts).encode()).hexdigest()


def _run(*command: str, **environment: str) -> None:
    beside = {k: v for k, v in os.environ.items() if k != "PYTHONPATH"}
    done = subprocess.run(
        command,
        env={**beside, **environment},
        capture_output=True,
        text=True,
        timeout=SECONDS,
        check=False,
    )
    if done.returncode:
        raise RuntimeError(f"{' '.join(command)} failed:\n{done.stdout}\n{done.stderr}")
