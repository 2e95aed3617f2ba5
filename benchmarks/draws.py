"""Random numbers that are a function of a row's number: any part of a stream can be made on its own."""

from __future__ import annotations

from typing import TypeAlias

import numpy as np
import numpy.typing as npt

Numbers: TypeAlias = npt.NDArray[np.int64]


def draw(event: Numbers, stream: int) -> npt.NDArray[np.uint64]:
    """64 random bits: splitmix64 of the event's number and of what they are for."""
    z = event.astype(np.uint64) * np.uint64(0x9E3779B97F4A7C15)
    z += np.uint64(stream * 0xD1342543DE82EF95 & 0xFFFFFFFFFFFFFFFF)
    z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    mixed: npt.NDArray[np.uint64] = z ^ (z >> np.uint64(31))
    return mixed


def below(event: Numbers, stream: int, limit: int | Numbers) -> Numbers:
    """Random numbers from 0 to limit - 1 (limit below 2^32)."""
    high = draw(event, stream) >> np.uint64(32)
    numbers: Numbers = (high * np.asarray(limit).astype(np.uint64) >> np.uint64(32)).astype(
        np.int64
    )
    return numbers
