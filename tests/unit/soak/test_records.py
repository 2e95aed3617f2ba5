"""What readers of a soak find: everything once is accepted, and nothing else."""

import base64
import json
import re
from collections import defaultdict

import numpy as np
import pytest

from tests.real.soak.records import DifferenceError, Seen, bad_value, user, value

RECORDS, BAD = 12_000, 7


def letter(number):
    """The dead letter of a bad record."""
    return {
        "operator": "events",
        "row": json.dumps({"value": base64.b64encode(bad_value(number)).decode()}),
    }


def totals(numbers):
    """Records of the topic of totals after these numbers."""
    own = defaultdict(list)
    for number in numbers:
        own[int(user(number))].append(number)
    for one in sorted(own):
        yield b"%d" % one, {"user": one, "count": len(own[one]), "sum": sum(own[one])}


@pytest.fixture(scope="module")
def whole():
    """What a reader finds in the end: copies and totals."""
    return [json.loads(value(number)) for number in range(RECORDS)], [*totals(range(RECORDS))]


def given(records=RECORDS, bad=BAD):
    """A reader that has read the input."""
    made = Seen()
    for record in [*map(value, range(records)), *map(bad_value, range(bad))]:
        made.given(record)
    return made


def seen_of(copies, sums, letters, made=None):
    made = given() if made is None else made
    for row in copies:
        made.copy(row)
    for key, row in sums:
        made.total(key, row)
    for number in letters:
        made.letter(letter(number))
    return made


def test_everything_once_is_accepted(whole):
    seen = seen_of(*whole, range(BAD))
    assert seen.whole(RECORDS, BAD)
    seen.compare(RECORDS, BAD)


def test_less_is_not_whole(whole):
    copies, sums = whole
    assert not seen_of(copies[1:], sums, range(BAD)).whole(RECORDS, BAD)
    assert not seen_of(copies, sums[1:], range(BAD)).whole(RECORDS, BAD)
    assert not seen_of(copies, sums, range(BAD - 1)).whole(RECORDS, BAD)


def test_a_record_twice_is_noticed(whole):
    seen = seen_of(*whole, range(BAD))
    with pytest.raises(DifferenceError, match="record 17 was copied 2 times, and given 1 times"):
        seen.copy(json.loads(value(17)))


def test_a_record_that_nobody_gave_is_noticed():
    with pytest.raises(DifferenceError, match="record 17 was copied 1 times, and given 0 times"):
        Seen().copy(json.loads(value(17)))


def test_what_the_producer_doubled_is_copied_and_counted_twice(whole):
    seen = given()
    seen.given(value(17))
    copies, _ = whole
    seen_of([*copies, copies[17]], totals([*range(RECORDS), 17]), range(BAD), seen)
    assert seen.whole(RECORDS, BAD)
    seen.compare(RECORDS, BAD)
    assert seen.doubled == 1
    once = given()
    once.given(value(17))
    seen_of(copies, totals(range(RECORDS)), range(BAD), once)
    assert not once.whole(RECORDS, BAD)
    with pytest.raises(DifferenceError, match=re.escape("missing: [17]")):
        once.compare(RECORDS, BAD)


def test_a_record_that_did_not_come_into_the_topics_is_noticed(whole):
    seen = seen_of(*whole, range(BAD))
    with pytest.raises(DifferenceError, match="the input lacks"):
        seen.compare(RECORDS + 1, BAD)
    with pytest.raises(DifferenceError, match="bad records"):
        seen.compare(RECORDS, BAD + 1)


def test_a_lost_record_is_noticed(whole):
    copies, sums = whole
    seen = seen_of([row for row in copies if row["n"] != 17], sums, range(BAD))
    with pytest.raises(DifferenceError, match=re.escape("missing: [17]")):
        seen.compare(RECORDS, BAD)


def test_a_changed_record_is_noticed():
    with pytest.raises(DifferenceError, match="record 17 was copied as"):
        given().copy({"user": 3, "n": 17})


@pytest.mark.parametrize("column", ["count", "sum"])
def test_a_wrong_total_is_noticed(whole, column):
    copies, sums = whole
    (key, row), *others = sums
    seen = seen_of(copies, [(key, {**row, column: row[column] + 1}), *others], range(BAD))
    with pytest.raises(DifferenceError, match=f"1 users have another {column}; user 0"):
        seen.compare(RECORDS, BAD)


def test_a_timestep_that_is_published_twice_is_noticed():
    seen, (first, *_) = Seen(), totals(range(RECORDS))
    seen.total(*first)
    with pytest.raises(DifferenceError, match="user 0 had 3 records, and then 3"):
        seen.total(*first)


def test_a_total_in_the_partition_of_another_key_is_noticed():
    with pytest.raises(DifferenceError, match="have the key b'5'"):
        Seen().total(b"5", {"user": 4, "count": 1, "sum": 4})


@pytest.mark.parametrize(("letters", "told"), [([0, 1], "lost"), ([0, 1, 2, 2], "too many")])
def test_dead_letters_are_compared(letters, told):
    seen = seen_of([], [], letters, given(0, 3))
    with pytest.raises(DifferenceError, match=rf"{told} \[b'"):
        seen.compare(0, 3)


def of_one_user(rows):
    seen = Seen()
    for count, since in rows:
        row = {"user": 0, "count": count, "sum": 0}
        seen.total(b"0", row if since is None else {**row, "since": since})
    return seen


def test_a_column_counts_from_where_it_came():
    seen = of_one_user([(3, None), (5, 2), (9, 6), (11, None), (12, 1), (20, 9)])
    assert (seen.with_column, seen.without_column) == (4, 2)


def test_a_column_may_go_and_come_while_a_user_has_no_rows():
    of_one_user([(3, 3), (5, 5), (7, 2), (9, 4)])


@pytest.mark.parametrize(
    "rows", [[(3, None), (5, 3)], [(3, 3), (5, 4)], [(3, None), (5, 2), (6, 2)]]
)
def test_a_column_that_counts_otherwise_is_noticed(rows):
    with pytest.raises(DifferenceError, match="after a count of"):
        of_one_user(rows)


def test_bad_records_differ_and_are_no_objects_of_the_schema():
    values = {bad_value(number) for number in range(100)}
    assert len(values) == 100
    for one in values:
        try:
            assert not isinstance(json.loads(one)["user"], int)
        except json.JSONDecodeError:
            continue


def test_users_of_arrays_are_those_of_numbers():
    numbers = np.arange(1_000)
    assert user(numbers).tolist() == [user(int(number)) for number in numbers]
