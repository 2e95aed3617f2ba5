"""Let a worker keep the memory that a task has freed until the next one needs it.

The arrays of a task are large. glibc gives such memory back to the system at once, and Arrow's allocator (mimalloc)
after 10 ms, so the kernel has to find and clear every page anew in each timestep. Where a timestep changes a million
keys, a tenth of a worker's CPU time went into that.

Both allocators read what they do before they hand out memory. So this comes before numpy and pyarrow, and imports
neither of them. What the environment says of either allocator is left alone.
"""

from __future__ import annotations

import ctypes
import os

ARROW = "MIMALLOC_PURGE_DELAY"
KEPT_MS = 2_000
"""For which Arrow's allocator keeps what is free: longer than most timesteps are apart."""

TRIMMED_BYTES = 256 * 1024**2
"""glibc gives memory back once more than this is free."""
MAPPED_BYTES = 32 * 1024**2
"""glibc asks the system for pieces of this size or more one by one, and gives each back when it is freed: the largest
size that it allows."""

_M_TRIM_THRESHOLD, _M_MMAP_THRESHOLD = -1, -3
_OF_GLIBC = ("MALLOC_TRIM_THRESHOLD_", "MALLOC_MMAP_THRESHOLD_", "MALLOC_TOP_PAD_")


def keep() -> None:
    """Tell the allocators, if there are such."""
    os.environ.setdefault(ARROW, str(KEPT_MS))
    if any(name in os.environ for name in _OF_GLIBC):
        return
    if "glibc.malloc" in os.environ.get("GLIBC_TUNABLES", ""):
        return
    try:
        tell = ctypes.CDLL(None).mallopt
    except (OSError, TypeError, AttributeError):
        return  # another C library
    tell(_M_MMAP_THRESHOLD, MAPPED_BYTES)
    tell(_M_TRIM_THRESHOLD, TRIMMED_BYTES)
