"""What the figures depend on beside the code: versions and hardware."""

from __future__ import annotations

import os
import platform
import re
import subprocess
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

PACKAGES = ("pyspark", "pyarrow", "numpy", "polars", "pandas", "rechannel")
UNKNOWN = "unknown"


def versions() -> dict[str, str]:
    """Python, Java and the packages that take part; ``not installed`` for those that are absent."""
    return {
        "python": platform.python_version(),
        "java": java_version(),
        **{package: package_version(package) for package in PACKAGES},
    }


def package_version(package: str) -> str:
    """The installed version of `package`."""
    try:
        return version(package)
    except PackageNotFoundError:
        return "not installed"


def java_version() -> str:
    """The version of the Java that Spark would start."""
    home = os.environ.get("JAVA_HOME")
    java = str(Path(home) / "bin" / "java") if home else "java"
    try:
        told = subprocess.run([java, "-version"], capture_output=True, text=True, check=False)
    except OSError:
        return "not installed"
    return parse_java_version(told.stderr)


def parse_java_version(told: str) -> str:
    """The version in the output of ``java -version``."""
    found = re.search(r'version "([^"]+)"', told)
    return found.group(1) if found else UNKNOWN


def hardware() -> dict[str, str | int | float]:
    """CPU model, CPUs (usable, and of the machine), memory in bytes, system, and the load now.

    The load is the number of processes that wanted to run during the last minute: figures taken on
    a busy machine say little.
    """
    return {
        "cpu": cpu_model(),
        "cpus_usable": usable_cpus(),
        "cpus": os.cpu_count() or 0,
        "memory_bytes": memory_bytes(),
        "os": platform.platform(),
        "load_before": load(),
    }


def cpu_model() -> str:
    """The name that the processor gives itself."""
    try:
        told = Path("/proc/cpuinfo").read_text(encoding="utf-8")
    except OSError:
        return platform.processor() or UNKNOWN
    found = re.search(r"^model name\s*:\s*(.+)$", told, re.MULTILINE)
    return found.group(1) if found else platform.machine()


def usable_cpus() -> int:
    """How many CPUs this process may run on."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 0


def memory_bytes() -> int:
    """Physical memory; 0 if the system does not tell."""
    try:
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (ValueError, OSError):
        return 0


def load() -> float:
    """The load of the last minute; 0 if the system does not tell."""
    try:
        return round(os.getloadavg()[0], 2)
    except OSError:
        return 0.0
