"""Partitions are chosen by values as the writer has written them."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal

import pyarrow as pa
import pytest

from rechannel.errors import RefusedError
from rechannel.sinks.dataset.where import chosen, texts_of
from rechannel.sinks.partitioned import parts_of

NOON = dt.datetime(2026, 1, 2, 12, tzinfo=dt.UTC)


@pytest.mark.parametrize(
    ("value", "kind"),
    [
        (NOON, pa.timestamp("us", "UTC")),
        (NOON.replace(tzinfo=None), pa.timestamp("us")),
        (NOON.date(), pa.date32()),
        (Decimal("1.5"), pa.decimal128(10, 2)),
        (True, pa.bool_()),
        (7, pa.int64()),
        (0.1, pa.float32()),
        (1.0, pa.float64()),
        ("a/b=c d", pa.string()),
        ("", pa.string()),
        (None, pa.timestamp("us")),
    ],
)
def test_a_value_is_found_as_it_was_written(value, kind):
    rows = pa.record_batch([pa.array([value], kind)], names=["p"])
    ((part, _),) = parts_of(rows, ["p"])
    assert chosen(part, texts_of({"p": value}, rows.schema))
    assert not chosen("p=other", texts_of({"p": value}, rows.schema))


@pytest.mark.parametrize(
    ("value", "kind"), [("noon", pa.timestamp("us")), ("7", pa.int64()), (1 << 80, pa.int64())]
)
def test_a_value_of_another_type_is_refused(value, kind):
    with pytest.raises(RefusedError, match=r"is no value of 'p', which is"):
        texts_of({"p": value}, pa.schema([("p", kind)]))
