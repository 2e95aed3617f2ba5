"""All state rows of keys: ranges of hashes in runs, the newest of each row, in whole files and in parts of them."""

from __future__ import annotations

from itertools import groupby
from random import Random

import numpy as np
import pyarrow as pa
import pytest

from rechannel.errors import UserFunctionError
from rechannel.kernels.columnar import sorting
from rechannel.kernels.columnar.groups import Groups
from rechannel.kernels.columnar.sorting import take
from rechannel.kernels.lsm import collect
from rechannel.kernels.lsm.lookup import OpenRun
from rechannel.kernels.lsm.merge import Rows
from rechannel.kernels.protocol.logic import OperatorInput
from rechannel.kernels.protocol.resolved import Capabilities
from rechannel.kernels.protocol.two_sides import LEFT, RIGHT, ROW, Side, row_numbers, sides_of
from rechannel.model.eventtime import Clock
from rechannel.model.hashing import hash_columns
from rechannel.model.hashspace import SPACE, Intervals
from rechannel.operators.join.logic import JoinLogic
from rechannel.settings import Durability
from rechannel.state.segments.segment import SegmentMeta, open_segment, write_segment
from rechannel.state.stores.local import LocalStore
from rechannel.state.stores.shared import SharedStore

KEYS = pa.schema([("a", pa.int64()), ("b", pa.string())])
SLOTS = pa.schema([("slot_0", pa.string())])
LOGIC = JoinLogic(
    keys=KEYS,
    left=Side(fields=SLOTS, sources=("left.x",), slots=(0,)),
    right=Side(fields=pa.schema([]), sources=(), slots=()),
    slots=SLOTS,
    how="inner",
)

Row = tuple[int | None, str | None, int]
"""Key and number."""


def hashes_of(columns, bits):
    return hash_columns(columns) & np.uint64(SPACE - (SPACE >> bits))


def columns_of(rows):
    kinds = (pa.int64(), pa.string(), ROW.type)
    return [pa.array([row[i] for row in rows], kind) for i, kind in enumerate(kinds)]


def write(store, rows, number, bits):
    """A run of rows; those without a text are tombstones."""
    columns = [*columns_of(list(rows)), pa.array(list(rows.values()), pa.string())]
    hashes = hashes_of(columns[:2], bits)
    order = np.lexsort((columns[2].to_numpy(), hashes))
    batch = pa.RecordBatch.from_arrays(
        take(columns, order), schema=pa.schema([*LOGIC.key_schema, *LOGIC.state_schema])
    )
    dropped = np.array([text is None for text in rows.values()])[order]
    meta = SegmentMeta(operator="op", timestep=1, task=0, attempt="a", logic=1, schema="")
    key = f"segments/op/{number}.arrow"
    write_segment(
        store, key, hashes[order], batch, meta, dropped=dropped if dropped.any() else None
    )
    return key


def random_key(rng):
    return rng.choice((None, *range(12))), rng.choice((None, "", "x", "y"))


@pytest.mark.parametrize("bits", [0, 2, 64], ids=["one hash", "four hashes", "good hashes"])
@pytest.mark.parametrize("whole", [True, False], ids=["whole files", "parts of files"])
def test_it_finds_what_a_dict_holds(tmp_path, monkeypatch, bits, whole):
    monkeypatch.setattr(collect, "hash_is_key", lambda _: False)
    monkeypatch.setattr(sorting, "hash_is_key", lambda _: False)
    found = 0
    for seed in range(25):
        rng = Random(seed)
        local = LocalStore(tmp_path / f"{seed}", Durability.PROCESS)
        known: dict[Row, str | None] = {}
        names = []
        for number in range(rng.randint(0, 4)):
            rows: dict[Row, str | None] = {}
            for _ in range(rng.choice((1, 5, 60))):
                text = None if rng.random() < 0.2 else f"t{rng.randrange(99)}"
                rows[*random_key(rng), rng.randrange(6)] = text
            known.update(rows)
            names.append(write(local, rows, number, bits))
        store = local if whole else SharedStore(local, str(tmp_path / f"cache-{seed}"), 1 << 30)
        clip = Intervals.of([(0, SPACE // 3), (SPACE // 2, SPACE)])
        runs = [OpenRun(open_segment(store, name), clip) for name in reversed(names)]
        wanted = list({random_key(rng) for _ in range(rng.choice((1, 4, 30)))})
        keys = columns_of([(*key, 0) for key in wanted])[:2]
        hashes = hashes_of(keys, bits)
        order = np.argsort(hashes, kind="stable")
        hashes, keys = hashes[order], take(keys, order)
        asked = None
        if rng.random() < 0.5:
            borders = np.sort([[rng.randrange(-1, 8) for _ in wanted] for _ in range(2)], axis=0)
            asked = (borders[0], borders[1])
        held = collect.collect(
            Capabilities(LOGIC), runs, hashes, keys, lambda keys, state: None, asked
        )
        got = list(
            zip(
                held.owners.tolist(),
                *(column.to_pylist() for column in (*held.keys, *held.state)),
                strict=True,
            )
        )
        places = {wanted[i]: place for place, i in enumerate(order.tolist())}
        inside = np.zeros(len(hashes), dtype=np.bool_)
        for piece in clip.slices(hashes):
            inside[piece] = True
        assert got == sorted(
            (places[a, b], a, b, number, text)
            for (a, b, number), text in known.items()
            if (a, b) in places and text is not None and inside[places[a, b]]
            if asked is None or asked[0][places[a, b]] <= number < asked[1][places[a, b]]
        )
        found += len(got)
    assert found > 50


@pytest.mark.parametrize("bits", [0, 64], ids=["one hash", "good hashes"])
def test_keys_that_received_rows_are_left_out_and_of_others_everything_is_there(
    tmp_path, monkeypatch, bits
):
    monkeypatch.setattr(collect, "hash_is_key", lambda _: False)
    monkeypatch.setattr(sorting, "hash_is_key", lambda _: False)
    store = LocalStore(tmp_path, Durability.PROCESS)
    keys = [(a, b) for a in (None, *range(6)) for b in (None, "x", "y")]
    old = {(*key, number): f"{number}" for key in keys for number in range(3)}
    names = [
        write(store, old, 0, bits),
        write(store, {(*key, 1): None for key in keys[::2]}, 1, bits),
    ]
    runs = [OpenRun(open_segment(store, name), Intervals.everything()) for name in reversed(names)]
    came, due = keys[:5], keys[3:12]

    def sorted_columns(rows):
        columns = columns_of(rows)
        hashes = hashes_of(columns[:2], bits)
        order = np.argsort(hashes, kind="stable")
        return hashes[order], take(columns, order)

    hashes, columns = sorted_columns([(*key, 0) for key in came])
    received = OperatorInput(
        keys=columns[:2],
        hashes=hashes,
        values=[],
        groups=Groups(np.arange(len(came)), len(came)),
        combined=False,
        old=[],
        found=np.zeros(len(came), dtype=np.bool_),
        clock=Clock(stream_ms=0),
        timestep=1,
    )
    parts = []
    for piece in (due[:6], due[4:]):
        places, found = sorted_columns([(*key, number) for key in piece for number in (0, 2)])
        parts.append(Rows(places, found, None))
    whole = collect.whole_keys(Capabilities(LOGIC), parts, received, runs, lambda keys, state: None)
    assert (whole.hashes[1:] >= whole.hashes[:-1]).all()
    got = list(zip(*(column.to_pylist() for column in whole.columns), strict=True))
    gone = {(*key, 1) for key in keys[::2]}
    wanted = {row for row in old if row[:2] in due and row[:2] not in came and row not in gone}
    assert {row[:3] for row in got} == wanted
    assert len(got) == len(wanted) > 15
    runs_of = [key for key, _ in groupby(row[:2] for row in got)]
    assert len(runs_of) == len(set(runs_of)) == len(due) - 2


def test_rows_of_a_key_are_numbered_by_side_timestep_and_place():
    groups = Groups(np.array([0, 3]), 5)
    sides = np.array([LEFT, LEFT, RIGHT, LEFT, RIGHT])
    first, second = (row_numbers(sides, timestep, groups) for timestep in (7, 8))
    assert first[0] < first[1] < second[0] < second[1] < first[2] < second[2]
    assert (first[0], first[4]) == (first[3], second[4] - (second[0] - first[0]))
    assert sides_of(first).tolist() == sides.tolist()
    with pytest.raises(UserFunctionError, match="make timesteps smaller"):
        row_numbers(sides, 1 << 37, groups)
