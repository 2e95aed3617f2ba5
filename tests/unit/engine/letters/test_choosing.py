"""Which dead letters a call takes: beside a naive twin, and within its bounds, however the letters come in pieces."""

from __future__ import annotations

import json
import random
from collections import Counter

import pyarrow as pa
import pytest

from rechannel.engine.letters import choosing
from rechannel.engine.letters.choosing import Asked, choose
from rechannel.engine.letters.taken import Taken
from rechannel.kernels.functions.dead_letters import WHOLE_LETTER

SCHEMA = pa.schema([("v", pa.int64())])


def letters(*rows: tuple[int, int, str | None, str]) -> pa.RecordBatch:
    """Return dead letters of (timestep, value, offset, error)."""
    made = [
        {"operator": "op", "error": e, "row": json.dumps({"v": v}), "at_timestep": t, "offset": o}
        for t, v, o, e in rows
    ]
    return pa.RecordBatch.from_pylist(made, schema=WHOLE_LETTER)


def chosen(pieces, taken, error=""):
    return choose(pieces, Asked(error=error), taken, SCHEMA, frozenset({"v"}))


def test_calls_take_what_a_naive_twin_takes(monkeypatch):
    draw = random.Random(1)
    monkeypatch.setattr(choosing, "MOST_ROWS", 17)
    every = [
        (draw.randrange(3), draw.randrange(4), draw.choice([None, "1", "2"]), draw.choice("ef"))
        for _ in range(200)
    ]
    every = [(t, v, o, "e" if v % 2 else "f") for t, v, o, _ in every]
    files: list[pa.RecordBatch] = []
    twin: Counter[tuple[int, int, str | None]] = Counter()
    for error in ["e", "e", "", "f", "", ""] * 4:
        cuts = sorted(draw.randrange(len(every)) for _ in range(5))
        pieces = [
            letters(*every[a:b]) for a, b in zip([0, *cuts], [*cuts, len(every)], strict=True)
        ]
        left, open_, before = Counter(twin), [], 0
        for t, v, o, e in every:
            if left[t, v, o]:
                left[t, v, o] -= 1
                before += 1
            elif error in e:
                open_.append((t, v, o))
        found = chosen(pieces, Taken.of(files), error)
        assert (found.before, found.left) == (before, max(0, len(open_) - 17))
        rows = [row["v"] for row in found.taken.column("row").to_pylist()]
        assert sorted(rows) == sorted(v for _, v, _ in open_[:17])
        twin.update(open_[:17])
        files.append(found.taken)
    assert twin.total() == 200


def test_rows_count_how_often_they_were_tried_and_the_last_replay_holds():
    tries = []
    files: list[pa.RecordBatch] = []
    for timestep in range(3):
        found = chosen([letters((timestep, 1, None, "e"))], Taken.of(files))
        files.append(found.taken)
        tries += found.taken.column("attempts").to_pylist()
    assert tries == [1, 2, 3]
    told = chosen([letters((9, 1, '{"attempts": 7}', "e"), (9, 2, None, "e"))], Taken.of(files))
    assert told.taken.column("attempts").to_pylist() == [1, 7]
    assert told.taken.column("row").to_pylist() == [{"v": 2}, {"v": 1}]


@pytest.mark.parametrize(("most", "rows"), [(0, 1), (1, 1), (60, 2), (1_000, 4)])
def test_what_a_call_takes_is_bounded_by_bytes_and_the_rest_is_counted(monkeypatch, most, rows):
    monkeypatch.setattr(choosing, "MOST_BYTES", most)
    pieces = [letters(*((t, v, None, "e" * 20) for v in range(2))) for t in range(2)]
    found = chosen(pieces, Taken.of([]))
    assert (found.taken.num_rows, found.left) == (rows, 4 - rows)


@pytest.mark.parametrize("at_once", [1, 2, 3, 1_000])
def test_letters_that_do_not_fit_take_no_room_from_those_that_do(monkeypatch, at_once):
    monkeypatch.setattr(choosing, "MOST_ROWS", 2)
    monkeypatch.setattr(choosing, "AT_ONCE", at_once)
    old = {"operator": "op", "error": "e", "row": '{"w": 1}', "at_timestep": 0, "offset": None}
    other = pa.RecordBatch.from_pylist([old] * 6, schema=WHOLE_LETTER)
    good = letters(*((1, v, None, "e") for v in range(5)))
    files, rows, left = [], [], []
    for _ in range(3):
        found = chosen([other, good], Taken.of(files))
        assert found.refused == {"it has ['w'], and the operator reads other columns by now": 6}
        files.append(found.taken)
        rows += [row["v"] for row in found.taken.column("row").to_pylist()]
        left.append(found.left)
    assert (rows, left) == ([0, 1, 2, 3, 4], [3, 1, 0])


def test_no_dead_letters():
    found = chosen([], Taken.of([]))
    assert (found.taken.num_rows, found.before, found.left) == (0, 0, 0)
