"""Messages of Protocol Buffers as columns."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import rechannel as rc
from rechannel.dataflow.identity.digests import digest_of
from rechannel.errors import DataflowError, StorageError
from rechannel.kernels.functions.formats.framing import framing
from rechannel.kernels.functions.formats.protobuf.framing import indexes
from tests.support.messages import add, classes, file
from tests.unit.kernels.functions.formats.protobuf_cases import EVERY, every, written


def as_column(row):
    absent = {
        **dict.fromkeys(["left", "right", "maybe", "at", "w", "r"]),
        "e": "A", "many": [], "rs": [], "m": [],
    }  # fmt: skip
    made = {**absent, **row}
    made["m"] = list(dict(made["m"]).items())
    made["at"] = made["at"] and made["at"].replace(tzinfo=dt.UTC)
    for name in ("f_uint64", "f_fixed64"):
        made[name] = Decimal(made[name])
    return made


def parsed(form, *values):
    return form.parsed(pa.array(values, pa.binary()))


@given(st.lists(every, max_size=4))
def test_columns_are_the_fields(rows):
    made = parsed(rc.formats.protobuf(EVERY), *map(written, rows))
    assert made.errors == {}
    assert made.rows.to_pylist() == [as_column(row) for row in rows]
    made.rows.validate(full=True)


@given(st.binary(max_size=30), every)
def test_no_bytes_touch_the_other_messages(noise, row):
    good = written(row)
    made = parsed(rc.formats.protobuf(EVERY), good, noise, None, good)
    kept = made.rows.to_pylist()
    assert kept[0] == kept[-1] == as_column(row)
    assert len(kept) + len(made.errors) == 4
    assert set(made.errors) <= {1}


def versions():
    """A reader's file, and a later writer's with another message before it and one more field."""
    first, later = file(), file()
    old = first.message_type.add(name="Event")
    other, new = (later.message_type.add(name=name) for name in ("Other", "Event"))
    add(other, "x", "int64", 1)
    for each in (old, new):
        add(each, "user", "string", 1)
        add(each, "n", "int64", 2)
    add(new, "more", "string", 3)
    return first, later


def test_versions_of_a_schema_are_read_with_one(registry):
    first, later = versions()
    (event,), (newer,) = classes(first, "shop.Event"), classes(later, "shop.Event")
    old, new = (
        registry.register("e", each.SerializeToString(), "PROTOBUF") for each in (first, later)
    )
    form = rc.formats.protobuf(event, registry=registry.url)
    values = [
        framing(new) + b"\x02\x02" + newer(user="a", n=1, more="x").SerializeToString(),
        framing(old) + b"\x00" + event(user="b", n=2).SerializeToString(),
        None,
        framing(old) + b"\x02\x00" + event(user="c", n=3).SerializeToString(),  # the long form
        framing(old) + b"\x00" + event(user="d", n=4).SerializeToString(),
    ]
    for _ in range(2):
        made = parsed(form, *values)
        assert made.errors == {}
        assert [tuple(row.values()) for row in made.rows.to_pylist()] == [
            ("a", 1), ("b", 2), (None, None), ("c", 3), ("d", 4)
        ]  # fmt: skip
    assert len(registry.asked) == 2, "each schema is asked for once"


def test_what_is_no_message_is_named(registry):
    first, later = versions()
    changed = file()
    add(changed.message_type.add(name="Event"), "n", "string", 2)
    (event,) = classes(first, "shop.Event")
    good, new, other = (
        registry.register("e", each.SerializeToString(), "PROTOBUF")
        for each in (first, later, changed)
    )
    avro = registry.register("a", "string")
    message = event(user="a", n=1).SerializeToString()
    made = parsed(
        rc.formats.protobuf(event, registry=registry.url),
        framing(good) + b"\0" + message,
        b"\0\0",
        b"\1" + message,
        framing(77) + b"\0" + message,
        framing(avro) + b"\0" + message,
        framing(new) + b"\0" + message,
        framing(new) + b"\2\x08" + message,
        framing(other) + b"\0" + message,
        framing(good),
        framing(good) + b"\x04\x00",
        framing(good) + b"\x03\x00",
        framing(good) + b"\0" + message[:-1],
        framing(good) + b"\0" + b"\x0a\x02\xff\xfe",
        framing(good) + b"\0",
    )
    words = {
        1: "shorter than 5", 2: "does not begin", 3: "no schema 77", 4: "of AVRO", 5: "shop.Other, not shop.Event",
        6: "no message", 7: "field n", 8: "break off", 9: "break off", 10: "-2 indexes", 11: "EOF", 12: "UTF-8",
    }  # fmt: skip
    assert set(made.errors) == set(words)
    for at, word in words.items():
        assert word in made.errors[at], (at, made.errors[at])
    assert made.rows.to_pylist() == [{"user": "a", "n": 1}, {"user": "", "n": 0}]


def test_a_registry_without_descriptors_is_no_fault_of_the_records(registry):
    first, _ = versions()
    (event,) = classes(first, "shop.Event")
    at = registry.register("e", b"\xff", "PROTOBUF")
    registry.by_id[at]["schema"] = 'syntax = "proto3";'
    form = rc.formats.protobuf(event, registry=registry.url)
    with pytest.raises(StorageError, match="serialised descriptors"):
        parsed(form, framing(at) + b"\0")


def test_what_has_no_column_is_refused_with_its_name():
    of = file()
    node, timed = (of.message_type.add(name=name) for name in ("Node", "Timed"))
    add(node, "next", "shop.Node", 1)
    inner = timed.nested_type.add(name="In")
    add(inner, "nothing", "shop.Timed.Empty", 1)
    timed.nested_type.add(name="Empty")
    add(timed, "inner", "shop.Timed.In", 1, repeated=True)
    loop, empty = classes(of, "shop.Node", "shop.Timed")
    with pytest.raises(DataflowError, match=r"field next is message shop\.Node within itself"):
        rc.formats.protobuf(loop)
    with pytest.raises(DataflowError, match=r"field inner\.nothing is message .* without fields"):
        rc.formats.protobuf(empty)
    with pytest.raises(DataflowError, match="give the class of a message"):
        rc.formats.protobuf(dict)


def test_identity_is_the_message():
    first, later = versions()
    (event,), (newer,) = classes(first, "shop.Event"), classes(later, "shop.Event")
    form = rc.formats.protobuf(event)
    assert digest_of(form) == digest_of(rc.formats.protobuf(event))
    assert digest_of(form).complete
    assert digest_of(form) != digest_of(rc.formats.protobuf(newer))


@given(st.binary(max_size=12))
def test_indexes_end_or_are_refused(noise):
    try:
        found, at = indexes(noise, 0)
    except ValueError:
        return
    assert 0 < at <= len(noise)
    assert found
