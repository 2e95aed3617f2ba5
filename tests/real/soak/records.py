"""What is produced in a soak, and what readers have to find: the two are computed apart from each other.

Record n of the input is of a user that follows from n. A consumer that reads what is committed compares, record by
record: every n is copied once; the totals of a user grow, and in the end they are what adding up all n gives; the
column that comes and goes counts from where it came; every bad record is a dead letter once.
"""

from __future__ import annotations

import base64
import json
from collections import Counter
from typing import Any

import numpy as np

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
        self._copied = np.zeros(GROWTH, bool)
        self.copies = 0
        self.counts = np.zeros(USERS, np.int64)
        self.sums = np.zeros(USERS, np.int64)
        self._begun = np.full(USERS, ABSENT, np.int64)
        """Of the column that comes and goes: the count of each user when it came."""
        self.with_column = self.without_column = 0
        self.letters = Counter[bytes]()

    def copy(self, row: dict[str, Any]) -> None:
        """Take a record of the topic of copies."""
        number = row["n"]
        if number >= len(self._copied):
            more = np.zeros(max(GROWTH, number + 1 - len(self._copied)), bool)
            self._copied = np.concatenate([self._copied, more])
        if self._copied[number]:
            raise DifferenceError(f"record {number} was copied twice")
        if row != {"user": user(number), "n": number}:
            raise DifferenceError(f"record {number} was copied as {row}")
        self._copied[number] = True
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
        return (
            self.copies >= records
            and int(self.counts.sum()) >= records
            and self.letters.total() >= bad
        )

    def compare(self, records: int, bad: int) -> None:
        """Compare everything with the first `records` numbers and `bad` bad ones. Raises DifferenceError."""
        missing = np.flatnonzero(~self._copied[:records])
        if self.copies != records or len(missing):
            raise DifferenceError(
                f"{self.copies} of {records} records were copied; missing: {missing[:20]}"
            )
        number = np.arange(records, dtype=np.int64)
        counts = np.bincount(user(number), minlength=USERS)
        sums = np.zeros(USERS, np.int64)
        np.add.at(sums, user(number), number)
        for name, found, expected in (("count", self.counts, counts), ("sum", self.sums, sums)):
            wrong = np.flatnonzero(found != expected)
            if len(wrong):
                one = int(wrong[0])
                raise DifferenceError(
                    f"{len(wrong)} users have another {name}; user {one}: {found[one]}, not {expected[one]}"
                )
        letters = Counter(bad_value(number) for number in range(bad))
        if self.letters != letters:
            lost, more = letters - self.letters, self.letters - letters
            raise DifferenceError(f"dead letters: lost {[*lost][:5]}, too many {[*more][:5]}")
