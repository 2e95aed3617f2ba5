"""What differs between two reads of a table."""

import pyarrow as pa
import pytest

from rechannel.sources import snapshots
from rechannel.sources.snapshots import differences

SCHEMA = pa.schema([("k", pa.string()), ("n", pa.int64()), ("v", pa.string())])
BEFORE = [("a", 1, "x"), ("b", 2, "y"), ("c", None, None), ("d", 4, "z")]
AFTER = [("b", 2, "y"), ("c", None, "new"), ("d", 4, "z"), ("e", 5, "more")]


def batch(rows):
    names = SCHEMA.names
    return pa.RecordBatch.from_pylist([dict(zip(names, r, strict=True)) for r in rows], SCHEMA)


def told(before, after, keys=("k",)):
    found = differences(batch(before), batch(after), keys)
    return [sorted(tuple(row.values()) for row in part.to_pylist()) for part in found]


class Narrow:
    """Arrow whose columns of text hold little: offsets of 32 bits, at another scale."""

    most = 4

    def __getattr__(self, name):
        return getattr(pa, name)

    def concat_arrays(self, arrays):
        kind = arrays[0].type
        size = sum(len(text) for a in arrays for text in a.to_pylist() if isinstance(text, str))
        if pa.types.is_string(kind) and size > self.most:
            msg = "offset overflow while concatenating arrays"
            raise pa.ArrowInvalid(msg)
        return pa.concat_arrays(arrays)

    class Table:
        """Its chunks cannot be combined."""

        def __init__(self, batches):
            self.batches = batches

        @classmethod
        def from_batches(cls, batches):
            return cls(batches)

        def combine_chunks(self):
            return self

        def to_batches(self):
            return self.batches


def test_rows_are_new_or_other_ones_or_gone():
    assert told(BEFORE, AFTER) == [[("c", None, "new"), ("e", 5, "more")], [("a", 1, "x")]]
    assert told(BEFORE, BEFORE) == [[], []]
    assert told([], BEFORE[:1]) == [[("a", 1, "x")], []]
    assert told(BEFORE[:1], []) == [[], [("a", 1, "x")]]
    assert told([], []) == [[], []]
    assert told(BEFORE[:2], [("a", 2, "x"), ("b", 2, "y")], ("k", "n")) == [
        [("a", 2, "x")],
        [("a", 1, "x")],
    ]


@pytest.mark.parametrize(
    ("before", "after", "changed", "gone"),
    [
        (BEFORE, AFTER, [("c", None, "new"), ("e", 5, "more")], [("a", 1, "x")]),
        (AFTER, BEFORE, [("a", 1, "x"), ("c", None, None)], [("e", 5, "more")]),
    ],
)
def test_both_together_may_have_more_text_than_a_column_can(
    monkeypatch, before, after, changed, gone
):
    monkeypatch.setattr(snapshots, "pa", Narrow())
    assert told(before, after) == [changed, gone]
