"""What is produced in a soak, and what readers have to find: the two are computed apart from each other.

Record n of the input is of a user that follows from n. A consumer that reads what is committed compares, record by
record: every n is copied as often as the topics of the input have it; the totals of a user grow, and in the end they
are what adding up all n gives; the column that comes and goes counts from where it came; every bad record is a dead
letter once.

The topics of the input should have every n once, and are read to see that: when leaders change, an idempotent producer
may double a record (librdkafka issue 4953). Then it is to be copied, and counted, twice.
"""

from __future__ import annotations

import base64
import json
from collections import Counter
from typing import Any

import numpy as np
import numpy.typing as npt

Counts = npt.NDArray[np.uint8]

USERS = 5_000
GROWTH = 1 << 20
ABSENT = -1


def user(number: Any) -> Any:
    """Return the user of a number, or of an array of them."""
    return number * 7919 % USERS


def value(number: int) -> bytes:
    """Return the record of a number."""
    return b'{"user":%d,"n":%d}' % (user(number), number)


def bad_value(number: int) -> bytes:
    """Return a record that cannot be read: each in one of three ways."""
    return (b'{"user": bad %d}', b'{"user":%d', b'{"user":"no number","n":%d}')[number % 3] % number


class DifferenceError(AssertionError):
    """What readers see is not what they should."""


class Seen:
    """What a consumer has seen so far. The methods raise DifferenceError at the first record that cannot be."""

    def __init__(self) -> None:
        """Nothing yet."""
        self._given, self._copied = np.zeros(GROWTH, np.uint8), np.zeros(GROWTH, np.uint8)
        self.copies = 0
        self.given_letters = Counter[bytes]()
        self.counts = np.zeros(USERS, np.int64)
        self.sums = np.zeros(USERS, np.int64)
        self._begun = np.full(USERS, ABSENT, np.int64)
        """Of the column that comes and goes: the count of each user when it came."""
        self.with_column = self.without_column = 0
        self.letters = Counter[bytes]()

    @property
    def doubled(self) -> int:
        """How many records the topics of the input have more than once."""
        return int((self._given > 1).sum())

    def given(self, record: bytes) -> None:
        """Take a record of a topic of the input."""
        try:
            row = json.loads(record)
        except json.JSONDecodeError:
            row = {"user": None}
        if isinstance(row["user"], int):
            self._given = _counted(self._given, row["n"])
        else:
            self.given_letters[record] += 1

    def copy(self, row: dict[str, Any]) -> None:
        """Take a record of the topic of copies. Those of the input come first."""
        number = row["n"]
        if row != {"user": user(number), "n": number}:
            raise DifferenceError(f"record {number} was copied as {row}")
        self._copied = _counted(self._copied, number)
        given = int(self._given[number]) if number < len(self._given) else 0
        if self._copied[number] > given:
            msg = (
                f"record {number} was copied {self._copied[number]} times, and given {given} times"
            )
            raise DifferenceError(msg)
        self.copies += 1

    def total(self, key: bytes, row: dict[str, Any]) -> None:
        """Take a record of the topic of totals."""
        one, count = row["user"], row["count"]
        before = int(self.counts[one])
        if key != b"%d" % one:
            raise DifferenceError(f"totals of user {one} have the key {key!r}")
        if count <= before:
            raise DifferenceError(f"user {one} had {before} records, and then {count}")
        since = row.get("since")
        if since is None:
            self._begun[one] = ABSENT
            self.without_column += 1
        else:
            # It counts from a change on: from the one before, or from one since the last row of this user.
            begun = count - since
            if begun not in {before, int(self._begun[one])}:
                raise DifferenceError(f"user {one}: {row} after a count of {before}")
            self._begun[one] = begun
            self.with_column += 1
        self.counts[one], self.sums[one] = count, row["sum"]

    def letter(self, row: dict[str, Any]) -> None:
        """Take a record of the topic of dead letters."""
        self.letters[base64.b64decode(json.loads(row["row"])["value"])] += 1

    def whole(self, records: int, bad: int) -> bool:
        """Return whether as much has arrived as there is to come."""
        given = self._given.sum()
        return (
            given >= records
            and self.copies >= given
            and int(self.counts.sum()) >= given
            and self.given_letters.total() >= bad
            and self.letters.total() >= self.given_letters.total()
        )

    def compare(self, records: int, bad: int) -> None:
        """Compare everything with the first `records` numbers and `bad` bad ones. Raises DifferenceError."""
        missing = np.flatnonzero(self._given[:records] == 0)
        if len(missing) or self._given[records:].any():
            raise DifferenceError(f"the input lacks {missing[:20]}, or has more than {records}")
        number = np.arange(records, dtype=np.int64)
        given, copied = self._given[:records].astype(np.int64), self._copied[:records]
        missing = np.flatnonzero(copied != given)
        if self.copies != given.sum() or len(missing):
            raise DifferenceError(
                f"{self.copies} of {given.sum()} records were copied; missing: {missing[:20]}"
            )
        counts = np.zeros(USERS, np.int64)
        np.add.at(counts, user(number), given)
        sums = np.zeros(USERS, np.int64)
        np.add.at(sums, user(number), number * given)
        for name, found, expected in (("count", self.counts, counts), ("sum", self.sums, sums)):
            wrong = np.flatnonzero(found != expected)
            if len(wrong):
                one = int(wrong[0])
                raise DifferenceError(
                    f"{len(wrong)} users have another {name}; user {one}: {found[one]}, not {expected[one]}"
                )
        if set(self.given_letters) != {bad_value(number) for number in range(bad)}:
            raise DifferenceError(f"the input has {len(self.given_letters)} of {bad} bad records")
        if self.letters != self.given_letters:
            lost, more = self.given_letters - self.letters, self.letters - self.given_letters
            raise DifferenceError(f"dead letters: lost {[*lost][:5]}, too many {[*more][:5]}")


def _counted(counts: Counts, number: int) -> Counts:
    """Count a number; return the array, which may be a longer one."""
    if number >= len(counts):
        counts = np.append(counts, np.zeros(max(GROWTH, number + 1 - len(counts)), np.uint8))
    counts[number] += 1
    return counts
