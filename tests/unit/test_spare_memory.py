"""Memory that allocators hold free."""

from __future__ import annotations

import ctypes
import platform

import pyarrow as pa
import pytest

from rechannel import spare_memory
from rechannel.spare_memory import EVERY_S, SpareMemory, of_the_c_library, of_this_thread


def test_memory_is_given_back_once_in_a_while():
    now, given = [100.0], []
    spare = SpareMemory(lambda: given.append(now[0]), clock=lambda: now[0])
    for _ in range(4):
        now[0] += EVERY_S / 2
        spare.give_back()
    assert given == [100.0 + EVERY_S, 100.0 + 2 * EVERY_S]


def test_arrow_gives_back_what_it_holds_for_a_thread(monkeypatch):
    released = []
    pool = type("Pool", (), {"release_unused": lambda self: released.append(True)})()
    monkeypatch.setattr(pa, "default_memory_pool", lambda: pool)
    of_this_thread()
    assert released == [True]


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="glibc alone has malloc_trim")
def test_the_c_library_gives_back_what_it_holds_free(monkeypatch):
    trim, asked = spare_memory._trim(), []
    assert trim(0) in {0, 1}
    monkeypatch.setattr(spare_memory, "_trim", lambda: asked.append)
    of_the_c_library()
    assert asked == [0]


def test_a_c_library_without_a_way_is_left_alone(monkeypatch):
    monkeypatch.setattr(ctypes, "CDLL", lambda _name: object())
    spare_memory._trim.cache_clear()
    assert spare_memory._trim() is None
    of_the_c_library()
    spare_memory._trim.cache_clear()
