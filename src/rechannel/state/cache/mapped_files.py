"""Files mapped into memory, kept per process and shared by all readers of a path.

A map is reused only while the path still names the same file: a state directory may be removed and
made again while the process lives. The file descriptor is closed at once, so that the number of
maps is not limited by the number of open files.
"""
# ruff: noqa: PTH116

from __future__ import annotations

import os
from dataclasses import dataclass

import pyarrow as pa

from rechannel.state.cache.open_files import Lru

_MAPS_KEPT = 1024


@dataclass(frozen=True, slots=True)
class _Mapped:
    identity: tuple[int, ...]
    view: memoryview


_maps: Lru[str, _Mapped] = Lru(_MAPS_KEPT)


def map_file(path: str) -> memoryview:
    """Return all bytes of a file, as a view of its map. Raises OSError as opening a file does."""
    identity = _identity(path)
    mapped = _maps.get(path)
    if mapped is None or mapped.identity != identity:
        mapped = _Mapped(identity, open_map(path))
        _maps.put(path, mapped, _is_dead)
    return mapped.view


def open_map(path: str) -> memoryview:
    """Return all bytes of a file, as a view of a new map. Raises OSError."""
    if os.stat(path).st_size == 0:
        return memoryview(b"")  # nothing to map
    with pa.memory_map(path) as source:
        # The buffer outlives the file object, whose descriptor is closed here; Python's own mmap
        # would keep one.
        return memoryview(source.read_buffer()).cast("B")


def _identity(path: str) -> tuple[int, ...]:
    facts = os.stat(path)
    return facts.st_dev, facts.st_ino, facts.st_size, facts.st_mtime_ns


def _is_dead(path: str, mapped: _Mapped) -> bool:
    try:
        return _identity(path) != mapped.identity
    except OSError:
        return True
