"""Keep numpy from instructions that the processor of a worker has, and is slow at.

Tasks spend much of their time sorting hashes, and numpy sorts integers with AVX-512 where the processor has it. AMD's
Zen 4 has it, but takes over a hundred cycles to store the values of a vector that a mask selects, which such a sort
does all the time (numpy/x86-simd-sort, issue 6): it takes five times as long as with AVX2.

numpy reads a variable of the environment when it is imported. So this has to come before, and imports nothing of it.
"""

from __future__ import annotations

import os
import re
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

VARIABLE = "NPY_DISABLE_CPU_FEATURES"

AVX512 = "X86_V4 AVX512_ICL AVX512_SPR"
"""Names in numpy 2.4 and later, which warns of names that it does not know."""

EARLIER = "AVX512F AVX512CD AVX512_SKX AVX512_CLX AVX512_CNL AVX512_ICL AVX512_SPR"
"""Names in earlier ones."""

PROCESSORS = Path("/proc/cpuinfo")

_ZEN_3_AND_4 = "25"
"""The family of AMD's Zen 3, which has no AVX-512, and Zen 4."""


def avoid_slow(processors: Path = PROCESSORS) -> None:
    """Set the variable if the first processor is slow at AVX-512, unless it is set or that is not known."""
    try:
        with processors.open(encoding="utf-8", errors="replace") as file:
            first = file.read(4096)
        names = features(version("numpy"))
    except (OSError, PackageNotFoundError):
        return
    if is_slow(first):
        os.environ.setdefault(VARIABLE, names)


def features(numpy: str) -> str:
    """Return what a version of numpy calls them."""
    major, minor = (int(part) for part in numpy.split(".")[:2])
    return AVX512 if (major, minor) >= (2, 4) else EARLIER


def is_slow(processors: str) -> bool:
    """Whether the first processor is slow at AVX-512. processors: what Linux says of them in /proc/cpuinfo."""
    facts = dict(re.findall(r"^(vendor_id|cpu family)\s*:\s*(.*?)\s*$", processors, re.MULTILINE))
    return facts == {"vendor_id": "AuthenticAMD", "cpu family": _ZEN_3_AND_4}
