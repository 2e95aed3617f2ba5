"""Sealed records: small JSON files that contain the checksum of their own contents.

A record is one JSON object in canonical form (sorted keys, no spaces, ASCII) with a `format`
number and, as its last member, `xxh3`: the XXH3-64 of the canonical text without that member, as
16 hexadecimal digits. The seal may never change, so that every later version of Rechannel can
distinguish a newer file from a damaged one.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import xxhash

from rechannel.errors import DamagedStateError, NewerFormatError

_SEAL_LENGTH = len(',"xxh3":"0123456789abcdef"}')


def seal(record: Mapping[str, Any]) -> bytes:
    """Write a record that has a `format` member.

    Raises TypeError or ValueError for values that JSON cannot hold.
    """
    body = canonical(record)
    return body[:-1] + _seal_of(body)


def canonical(record: Mapping[str, Any]) -> bytes:
    """Write JSON in the one form that equal records share.

    Raises TypeError or ValueError for values that JSON cannot hold.
    """
    text = json.dumps(record, sort_keys=True, separators=(",", ":"), allow_nan=False)
    return text.encode("ascii")


def unseal(data: bytes | memoryview, *, name: str, newest: int) -> dict[str, Any]:
    """Read a record that `seal` wrote.

    name: what messages call the file. newest: the highest `format` that the caller understands.
    Raises DamagedStateError if any byte differs from what was written, NewerFormatError for a
    later format.
    """
    raw = bytes(data)
    body, tail = raw[:-_SEAL_LENGTH] + b"}", raw[-_SEAL_LENGTH:]
    if tail != _seal_of(body):
        msg = (
            f"{name} does not hold what was written (its checksum differs). Nothing is guessed:"
            " restore this file from a copy of the state directory, or start from an empty one"
        )
        raise DamagedStateError(msg)
    record: dict[str, Any] = json.loads(body.decode())
    if record["format"] > newest:
        msg = (
            f"{name} has format {record['format']}; this version of Rechannel reads up to {newest}."
            " Use the version that wrote it, or a later one"
        )
        raise NewerFormatError(msg)
    return record


def _seal_of(body: bytes) -> bytes:
    return f',"xxh3":"{xxhash.xxh3_64_hexdigest(body)}"}}'.encode("ascii")
