"""XXH64 over whole columns, in 64-bit integer arithmetic of numpy.

The algorithm is the public one of Yann Collet (`xxhash_spec.md` of the xxHash project). Inputs of
8 and 16 bytes need no state beyond one 64-bit word per row, so a column takes a handful of
multiplications, rotations and shifts; each pass works on blocks that fit into the second-level
cache. Byte strings use the vectorised plugin `polars-hash`.
"""

from __future__ import annotations

import contextlib

import numpy as np
import numpy.typing as npt
import pyarrow as pa

HashArray = npt.NDArray[np.uint64]
"""Shape (rows,), one hash or one 8-byte word per row."""

SEED = 42
"""Seed of every hash that starts a column; the one of Spark's `xxhash64`."""

BLOCK = 8192
"""Rows per block: a block and its scratch space take 128 KiB."""

_U64 = np.uint64
_PRIME_1 = _U64(0x9E3779B185EBCA87)
_PRIME_2 = _U64(0xC2B2AE3D27D4EB4F)
_PRIME_3 = _U64(0x165667B19E3779F9)
_PRIME_4 = _U64(0x85EBCA77C2B2AE63)
_PRIME_5 = _U64(0x27D4EB2F165667C5)


def of_words(words: HashArray, seed: int | HashArray = SEED) -> HashArray:
    """Return XXH64 of each row's 8 bytes (a little-endian word), with one seed or one seed per
    row.
    """
    return _of_lanes((words,), seed)


def of_pairs(low: HashArray, high: HashArray, seed: int | HashArray = SEED) -> HashArray:
    """Return XXH64 of each row's 16 bytes: the low word, then the high word, both little-endian."""
    return _of_lanes((low, high), seed)


def of_bytes(array: pa.Array, seed: int = SEED) -> HashArray:
    """Return XXH64 of every value of a string or binary column; undefined under nulls.

    The plugin runs in the calling thread; the thread pool of polars is not used.
    """
    if not len(array):
        return np.empty(0, np.uint64)
    import polars as pl
    import polars_hash  # noqa: F401  (registers the `nchash` namespace)

    if pa.types.is_binary(array.type) or pa.types.is_string(array.type):
        # Arrow builds the views that polars works on faster than polars does. Older versions cannot.
        with contextlib.suppress(pa.ArrowNotImplementedError):
            array = array.cast(pa.binary_view())
    expression = pl.col("value").nchash.xxhash64(seed=seed)  # type: ignore[attr-defined]
    hashes = pl.DataFrame({"value": pl.from_arrow(array)}).select(expression).to_series()
    filled: HashArray = hashes.fill_null(SEED).to_numpy()
    return filled


def _of_lanes(lanes: tuple[HashArray, ...], seed: int | HashArray) -> HashArray:
    rows = len(lanes[0])
    out = np.empty(rows, np.uint64)
    mixed = np.empty(min(rows, BLOCK), np.uint64)
    scratch = np.empty_like(mixed)
    start = _PRIME_5 + _U64(8 * len(lanes))
    with np.errstate(over="ignore"):  # adding a scalar seed wraps, as the algorithm requires
        for begin in range(0, rows, BLOCK):
            state = out[begin : begin + BLOCK]
            seeds = _U64(seed) if isinstance(seed, int) else seed[begin : begin + BLOCK]
            state[:] = seeds + start
            room = slice(0, len(state))
            for lane in lanes:
                np.multiply(lane[begin : begin + BLOCK], _PRIME_2, out=mixed[room])
                _absorb(state, mixed[room], scratch[room])
            _avalanche(state, scratch[room])
    return out


def _absorb(state: HashArray, mixed: HashArray, scratch: HashArray) -> None:
    _rotate(mixed, 31, scratch)
    mixed *= _PRIME_1
    state ^= mixed
    _rotate(state, 27, scratch)
    state *= _PRIME_1
    state += _PRIME_4


def _rotate(words: HashArray, left: int, scratch: HashArray) -> None:
    np.left_shift(words, _U64(left), out=scratch)
    np.right_shift(words, _U64(64 - left), out=words)
    words |= scratch


def _avalanche(state: HashArray, scratch: HashArray) -> None:
    for shift, prime in ((33, _PRIME_2), (29, _PRIME_3)):
        np.right_shift(state, _U64(shift), out=scratch)
        state ^= scratch
        state *= prime
    np.right_shift(state, _U64(32), out=scratch)
    state ^= scratch
