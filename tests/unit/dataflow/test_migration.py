"""What users say of state whose columns change: carried over, or refused with the reason."""

from __future__ import annotations

import json

import pyarrow as pa
import pytest

from rechannel.dataflow.evolution.migration import migrate
from rechannel.dataflow.evolution.migration_json import migration_from_json, migration_to_json
from rechannel.dataflow.evolution.succession import migration_between
from rechannel.dataflow.evolution.widening import widens
from rechannel.dataflow.identity.provided import Provided
from rechannel.dataflow.streams.aggregates import count, first, last_n, max, mean, sum
from rechannel.errors import DataflowError, RefusedError, UnknownColumnError
from rechannel.kernels.protocol.migrate import Fill, Migration
from rechannel.model.ddl import schema_of
from rechannel.operators.aggregate.spec import AggregateSpec, ReduceSpec
from rechannel.operators.process.track_spec import TrackBatchesSpec, TrackSpec

KEYS = schema_of("k STRING")
OLD = schema_of("n INT, s STRING")


def bound(said, new: str, old: pa.Schema | str = OLD, **more) -> Migration:
    return said.bind(schema_of(old), schema_of(new), keys=KEYS, **more)


def applied(migration: Migration, *rows: tuple) -> list[list]:
    """New state of old rows (key first)."""
    schema = pa.schema([*migration.key_schema, *migration.from_schema])
    given = [pa.array([row[i] for row in rows], f.type) for i, f in enumerate(schema)]
    made = migration.apply(given)[len(migration.key_schema) :]
    assert [c.type for c in made] == migration.to_schema.types
    return [c.to_pylist() for c in made]


# Column by column ----------------------------------------------------------------------------------


def test_columns_are_added_dropped_renamed_and_widened():
    said = migrate(
        add={"zero": 0, "twice": "n * 2", "word": "'none'", "key": "UPPER(k)"},
        drop=["s"],
        rename={"n": "count"},
        retype={"count": "BIGINT"},
    )
    made = bound(said, "count BIGINT, twice INT, zero DOUBLE, word STRING, key STRING")
    assert applied(made, ("a", 4, "x"), ("b", None, None)) == [
        [4, None],
        [8, None],
        [0.0, 0.0],
        ["none", "none"],
        ["A", "B"],
    ]


def test_columns_may_change_places_and_names():
    assert applied(bound(migrate(rename={"n": "m"}), "s STRING, m INT"), ("a", 1, "x")) == [
        ["x"],
        [1],
    ]
    swap = migrate(rename={"a": "b", "b": "a"})
    assert applied(bound(swap, "a INT, b INT", "a INT, b INT"), ("k", 1, 2)) == [[2], [1]]


def test_an_expression_may_take_the_place_of_what_it_reads():
    said = migrate(drop=["n"], add={"n": "COALESCE(n, 0)"})
    schema = pa.schema([pa.field("n", pa.int32(), nullable=False), ("s", pa.string())])
    assert applied(bound(said, schema), ("a", None, None)) == [[0], [None]]


def test_a_function_makes_all_columns():
    def halves(batch: pa.RecordBatch) -> pa.RecordBatch:
        assert batch.schema.names == ["k", "n", "s"]
        return pa.record_batch({"half": [v.as_py() / 2 for v in batch.column("n")]})

    with pytest.raises(DataflowError, match=r"null does not fit|no rows"):
        bound(migrate(using=lambda b: pa.record_batch({"half": ["x"]})), "half DOUBLE")
    typed = lambda b: pa.record_batch(  # noqa: E731
        {"half": pa.array([v.as_py() / 2 for v in b.column("n")], pa.float64())}
    )
    assert applied(bound(migrate(using=typed), "half DOUBLE"), ("a", 3, None)) == [[1.5]]
    assert applied(bound(migrate(using=halves), "half DOUBLE"), ("a", 3, None)) == [[1.5]]


@pytest.mark.parametrize(
    ("said", "new", "error", "reason"),
    [
        ({"drop": ["m"]}, "n INT", UnknownColumnError, "old state has no column 'm' .known: n, s"),
        ({"rename": {"m": "n"}}, "n INT", UnknownColumnError, "old state has no column 'm'"),
        ({"rename": {"n": "m"}}, "n INT", UnknownColumnError, "new state has no column 'm'"),
        ({"add": {"m": 0}}, "n INT, s STRING", UnknownColumnError, "new state has no column 'm'"),
        ({"retype": {"m": "INT"}}, "n INT", UnknownColumnError, "new state has no column 'm'"),
        ({"rename": {"n": "s"}}, "s INT", DataflowError, "two columns would get the same name"),
        (
            {"add": {"n": 0}},
            "n INT, s STRING",
            DataflowError,
            "adds column 'n', which the old state has",
        ),
        ({"drop": ["n"]}, "s STRING, m INT", RefusedError, "'m' .int. that the old one has not"),
        ({"add": {"m": 0}}, "n INT, m INT", RefusedError, "no column 's': use migrate.drop=.'s'"),
        (
            {"drop": "s"},
            "n BIGINT",
            RefusedError,
            "was int and would be bigint: if that is intended",
        ),
        ({"drop": "s"}, "n SMALLINT", RefusedError, "would be smallint, which does not hold every"),
        (
            {"drop": "s", "retype": {"n": "SMALLINT"}},
            "n SMALLINT",
            RefusedError,
            "does not hold every value",
        ),
        ({"drop": "s", "retype": {"n": "INT"}}, "n BIGINT", DataflowError, "as bigint, not int"),
        ({"drop": "s"}, "n INT NOT NULL", RefusedError, "would be NOT NULL and could be null"),
        ({"add": {"m": 1.5}}, "n INT, s STRING, m INT", DataflowError, "declared int and got 1.5"),
        (
            {"add": {"m": None}},
            "n INT, s STRING, m INT NOT NULL",
            DataflowError,
            "cannot start as None",
        ),
    ],
)
def test_what_does_not_fit_is_refused(said, new, error, reason):
    with pytest.raises(error, match=reason):
        bound(migrate(**said), new)


@pytest.mark.parametrize(
    ("said", "reason"),
    [
        ({}, "migrate needs at least one of"),
        ({"using": 1}, "needs a function"),
        ({"using": len, "drop": "n"}, "leave add, drop, rename and retype out"),
        ({"drop": "n", "rename": {"n": "m"}}, "both drops and renames column 'n'"),
        ({"retype": {"n": 5}}, "needs a type such as 'BIGINT', not 5"),
        ({"retype": {"n": "INT, m INT"}}, "needs one type"),
        ({"retype": {"n": "LONGISH"}}, "expected a type"),
    ],
)
def test_what_contradicts_itself_is_refused(said, reason):
    with pytest.raises(DataflowError, match=reason):
        migrate(**said)


def test_a_double_becomes_an_integer_only_by_what_the_user_says():
    with pytest.raises(RefusedError, match=r"using=function.*CAST"):
        bound(migrate(retype={"x": "INT"}), "x INT", "x DOUBLE")
    said = migrate(drop="x", add={"x": "CAST(x AS INT)"})
    assert applied(bound(said, "x INT", "x DOUBLE"), ("a", 2.7)) == [[2]]


# Expressions ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "sql",
    [
        "SUM(n)",
        "n - AVG(n) OVER ()",
        "ROW_NUMBER() OVER (ORDER BY n)",
        "LAG(n) OVER (ORDER BY n)",
        "COUNT(*)",
        "FIRST_VALUE(n) OVER (ORDER BY n)",
        "COALESCE(n, AVG(n))",
        "CASE WHEN n > 100 THEN SUM(n) ELSE n END",
    ],
)
def test_an_expression_looks_at_one_row(sql):
    with pytest.raises(DataflowError, match=r"several rows at a time|cannot read|failed"):
        bound(migrate(add={"m": sql}), "n INT, s STRING, m DOUBLE")


@pytest.mark.parametrize(
    ("sql", "kind", "reason"),
    [
        ("n +", "INT", "cannot read the expression 'n .'.*quotes of its own"),
        ("unknown", "INT", "no column 'unknown'"),
        ("*", "INT", "cannot read"),
        ("n / 2", "INT", "gives double, but column 'm' is int: write CAST"),
        ("s || 'x'", "INT", "gives string|gives large_string"),
        ("'x'", "INT", "'x'.* does not fit column 'm' .int"),
        ("NULL", "INT NOT NULL", "is null, but column 'm' is NOT NULL"),
    ],
)
def test_expressions_that_are_refused(sql, kind, reason):
    with pytest.raises(DataflowError, match=reason):
        bound(migrate(add={"m": sql}), f"n INT, s STRING, m {kind}")


def test_a_constant_is_worked_out_once():
    made = bound(migrate(add={"m": "1 + 1"}), "n INT, s STRING, m TINYINT")
    assert isinstance(made.steps[2], Fill)
    assert applied(made, ("a", 1, "x"))[2] == [2]


def test_an_expression_may_need_values_that_no_example_has():
    said = migrate(add={"day": "DATE(s)"})
    made = bound(said, "n INT, s STRING, day DATE")
    assert str(applied(made, ("a", 1, "2024-02-29"))[2][0]) == "2024-02-29"


def struct(**fields):
    return pa.struct(list(fields.items()))


def test_types_that_hold_all_values_of_another():
    decimal = pa.decimal128
    yes = [
        (pa.int8(), pa.int16()),
        (pa.uint8(), pa.int16()),
        (pa.uint8(), pa.uint64()),
        (pa.int16(), pa.float32()),
        (pa.int32(), decimal(10, 0)),
        (pa.float32(), pa.float64()),
        (decimal(10, 2), decimal(12, 4)),
        (pa.string(), pa.large_string()),
        (pa.null(), pa.date32()),
        (pa.list_(pa.int32()), pa.list_(pa.int64())),
        (pa.date32(), pa.date32()),
        (struct(a=pa.int32()), struct(a=pa.int64())),
        (struct(a=pa.int32()), struct(b=pa.string(), a=pa.int32())),
        (pa.list_(struct(a=pa.int32())), pa.list_(struct(a=pa.int32(), b=pa.string()))),
        (pa.struct([pa.field("a", pa.int32(), False)]), struct(a=pa.int32())),
    ]
    no = [
        (pa.int16(), pa.int8()),
        (pa.int8(), pa.uint64()),
        (pa.uint8(), pa.int8()),
        (pa.int64(), pa.float64()),
        (pa.int32(), pa.float32()),
        (pa.int32(), decimal(9, 0)),
        (pa.int32(), pa.string()),
        (pa.float64(), pa.float32()),
        (pa.float32(), pa.int64()),
        (decimal(10, 2), decimal(10, 3)),
        (decimal(10, 2), pa.float64()),
        (pa.string(), pa.binary()),
        (pa.date32(), pa.timestamp("us")),
        (pa.list_(pa.int64()), pa.list_(pa.int32())),
        (struct(a=pa.int64()), struct(a=pa.int32())),
        (struct(a=pa.int64(), b=pa.string()), struct(a=pa.int64())),
        (struct(a=pa.int64()), struct(b=pa.int64())),
        (struct(a=pa.int64()), pa.struct([pa.field("a", pa.int64(), False)])),
        (struct(a=pa.int64()), pa.struct([("a", pa.int64()), pa.field("b", pa.int64(), False)])),
        (pa.struct([("a", pa.int64()), ("a", pa.int64())]), struct(a=pa.int64())),
        (struct(a=pa.int64()), pa.int64()),
    ]
    assert [pair for pair in yes if not widens(*pair)] == []
    assert [pair for pair in no if widens(*pair)] == []


# From logic to logic -------------------------------------------------------------------------------

ROWS = schema_of("k STRING, v BIGINT, x DOUBLE")


def aggregates(rows: pa.Schema = ROWS, **named):
    return AggregateSpec(aggregates=named).bind(("k",), rows)


def tracking(state: str = "n BIGINT", timeout: int | None = None, rows: pa.Schema = ROWS):
    spec = TrackSpec(update=lambda k, s, r: 1, state=schema_of(state), timeout_ms=timeout)
    return spec.bind(("k",), rows)


def test_the_same_columns_need_no_migration():
    assert migration_between(aggregates(n=count()), aggregates(n=count())) is None
    assert migration_between(tracking(), tracking()) is None
    batches = TrackBatchesSpec(update=lambda f: {}, state=schema_of("n BIGINT"), timeout_ms=None)
    assert migration_between(tracking(), batches.bind(("k",), ROWS)) is None


def test_aggregates_that_are_new_start_empty_and_those_that_are_gone_are_dropped():
    old = aggregates(n=count(), gone=max("v"))
    new = aggregates(mean=mean("x"), n=count(), total=sum("v"), tail=last_n("v", 3))
    made = migration_between(old, new)
    state = made.apply([pa.array(["a"]), pa.array([5]), pa.array([9])])
    shown = new.finish(state[:1], state[1:]).to_pylist()
    assert shown == [{"k": "a", "mean": None, "n": 5, "total": None, "tail": []}]


def test_the_order_of_aggregates_may_change():
    made = migration_between(
        aggregates(n=count(), top=max("v")), aggregates(top=max("v"), n=count())
    )
    assert applied(made, ("a", 5, 9)) == [[9], [5]]


def test_an_aggregate_is_renamed_by_its_name():
    old, new = aggregates(n=count(), m=mean("v")), aggregates(number=count(), mean=mean("v"))
    made = migration_between(old, new, migrate(rename={"n": "number", "m": "mean"}))
    assert made.to_schema.names == ["number.count", "mean.count", "mean.sum"]
    assert applied(made, ("a", 5, 4, 10)) == [[5], [4], [10]]


def test_an_aggregate_that_is_computed_otherwise_is_refused():
    old, new = aggregates(t=sum("v")), aggregates(t=sum("x"))
    with pytest.raises(RefusedError, match=r"'t' was Sum.* v bigint .*drop=\['t'\]"):
        migration_between(old, new)
    with pytest.raises(RefusedError, match="'t' was Sum"):
        migration_between(old, aggregates(schema_of("k STRING, v DOUBLE"), t=sum("v")))
    with pytest.raises(RefusedError, match="'u' was Sum"):
        migration_between(old, aggregates(u=sum("x")), migrate(rename={"t": "u"}))
    started = migration_between(old, new, migrate(drop=["t"]))
    assert new.finish([pa.array(["a"])], started.apply([pa.array(["a"]), pa.array([4])])[1:])[
        "t"
    ].to_pylist() == [None]


def test_columns_of_aggregates_can_be_made_of_others():
    old = aggregates(n=count("v"), t=sum("v"))
    said = migrate(add={"m.count": '"n.count"', "m.sum": 'CAST("t.sum" AS DECIMAL(38, 0))'})
    made = migration_between(old, aggregates(m=mean("v")), said)
    assert applied(made, ("a", 4, 10)) == [[4], [10]]
    said = migrate(add={"m": '"n.count" * 2'})
    assert applied(migration_between(old, aggregates(m=count()), said), ("a", 4, 10)) == [[8]]


def test_an_aggregate_with_a_wider_column():
    narrow, wide = schema_of("k STRING, v INT"), schema_of("k STRING, v BIGINT")
    old, new = aggregates(narrow, top=max("v")), aggregates(wide, top=max("v"))
    with pytest.raises(RefusedError, match="'top' was Max"):
        migration_between(old, new)
    made = migration_between(old, new, migrate(retype={"top": "BIGINT"}))
    assert applied(made, ("a", 5)) == [[5]]


def test_a_wider_type_says_nothing_of_another_column():
    schema = schema_of("k STRING, v BIGINT, w BIGINT")
    old, new = aggregates(schema, t=sum("v")), aggregates(schema, t=sum("w"))
    with pytest.raises(RefusedError, match="'t' was Sum"):
        migration_between(old, new, migrate(retype={"t": "BIGINT"}))


def test_an_aggregate_without_an_empty_state_cannot_be_added():
    with pytest.raises(RefusedError, match=r"'f' \(First.*cannot be added.*ignore nulls"):
        migration_between(aggregates(n=count()), aggregates(n=count(), f=first("v")))
    nulls = first("v", ignore_nulls=True)
    assert migration_between(aggregates(n=count()), aggregates(n=count(), f=nulls)) is not None


def test_where_a_timeout_comes_keys_count_as_seen():
    made = migration_between(tracking(), tracking(timeout=10), stream_ms=77)
    assert applied(made, ("a", 3)) == [[3], [77]]
    made = migration_between(
        tracking(), tracking(timeout=10), migrate(add={"_seen": 5}), stream_ms=7
    )
    assert applied(made, ("a", 3)) == [[3], [5]]
    with pytest.raises(RefusedError, match="when stored keys were last seen is unknown"):
        migration_between(tracking(), tracking(timeout=10))


def test_keys_that_a_timeout_has_ended_stay_ended():
    assert migration_between(tracking(timeout=10), tracking(timeout=5)) is None
    for longer in (tracking(timeout=10), tracking()):
        made = migration_between(tracking(timeout=5), longer, stream_ms=100)
        assert made.expired_before_ms == 95
        assert made.to_schema == longer.state_schema
        assert again(made).expired_before_ms == 95
        state = [pa.array(["a", "b"]), pa.array([3, 4]), pa.array([94, 95])]
        assert made.alive(state).tolist() == [False, True]
        with pytest.raises(RefusedError, match="needs the time of the change"):
            migration_between(tracking(timeout=5), longer)
    with pytest.raises(RefusedError, match="the new state has no timeout"):
        migrate(drop="_seen").bind(schema_of("n INT, _seen BIGINT"), schema_of("n INT"))


def test_the_time_of_the_last_rows_goes_along():
    old, new = tracking(timeout=5), tracking("n BIGINT, m BIGINT", timeout=5)
    assert applied(migration_between(old, new, migrate(add={"m": 0})), ("a", 3, 99)) == [
        [3],
        [0],
        [99],
    ]
    twice = migrate(using=lambda b: pa.record_batch({"n": b["n"], "m": b["n"]}))
    assert applied(migration_between(old, new, twice), ("a", 3, 99)) == [[3], [3], [99]]


def test_keys_and_kinds_stay():
    with pytest.raises(RefusedError, match=r"key columns cannot change.*another name"):
        migration_between(tracking(), tracking(rows=schema_of("k BIGINT, v BIGINT")))
    with pytest.raises(RefusedError, match="aggregate cannot become track: give the operator"):
        migration_between(aggregates(n=count()), tracking())


def test_a_running_reduce_keeps_the_columns_of_its_stream():
    def reducing(rows: str):
        return ReduceSpec(function=lambda a, b: b).bind(("k",), schema_of(rows))

    old, new = reducing("k STRING, v INT"), reducing("k STRING, v INT, w INT")
    with pytest.raises(RefusedError, match="has a column 'w'"):
        migration_between(old, new)
    assert applied(migration_between(old, new, migrate(add={"w": "v"})), ("a", 3)) == [[3], [3]]


def test_null_may_come_but_not_go():
    loose, strict = tracking("n BIGINT"), tracking("n BIGINT NOT NULL")
    assert migration_between(strict, loose) is None
    with pytest.raises(RefusedError, match="would be NOT NULL"):
        migration_between(loose, strict)


# As JSON -------------------------------------------------------------------------------------------


def again(migration: Migration) -> Migration:
    functions = [] if migration.function is None else [migration.function]
    written = json.loads(json.dumps(migration_to_json(migration)))
    return migration_from_json(written, Provided().also(functions))


def test_a_migration_is_written_down_and_read_again():
    said = migrate(add={"m": 7, "e": "n + 1", "l": [1, 2]}, drop="s")
    made = bound(said, "n INT, m BIGINT, e INT, l ARRAY<INT>")
    assert applied(again(made), ("a", 1, "x")) == applied(made, ("a", 1, "x"))
    started = migration_between(aggregates(n=count()), aggregates(n=count(), m=mean("x")))
    assert applied(again(started), ("a", 1)) == applied(started, ("a", 1))


def test_a_function_is_written_down_as_its_path(tmp_path, monkeypatch):
    (tmp_path / "some_migrations.py").write_text(
        "import pyarrow as pa\n"
        "def doubled(batch):\n"
        "    return pa.record_batch({'n': pa.array([2 * v.as_py() for v in batch['n']], pa.int64())})\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    import some_migrations

    made = bound(migrate(using=some_migrations.doubled), "n BIGINT")
    assert migration_to_json(made)["using"]["path"] == "some_migrations:doubled"
    assert applied(again(made), ("a", 4, None)) == [[8]]


def test_a_function_without_a_path_is_not_written_down():
    made = bound(migrate(using=lambda b: b.select(["n"])), "n INT")
    with pytest.raises(RefusedError, match="cannot be imported by another process"):
        migration_to_json(made)


def test_what_widens_is_cast():
    """Fields are found by name; new ones are null; a null struct stays null."""
    old, new = (
        struct(a=pa.int32(), b=pa.string()),
        struct(c=pa.float64(), b=pa.string(), a=pa.int64()),
    )
    for wrap, values in (
        (lambda kind: kind, [{"a": 1, "b": "x"}, None, {"a": None, "b": None}]),
        (pa.list_, [[{"a": 1, "b": "x"}, None], None, []]),
    ):
        wanted = migrate(retype={"v": wrap(new)})
        bound = wanted.bind(pa.schema({"v": wrap(old)}), pa.schema({"v": wrap(new)}))
        (made,) = bound.apply([pa.array(values, wrap(old))])
        assert made.type == wrap(new)
        assert made.cast(wrap(new)).to_pylist() == pa.array(values, wrap(new)).to_pylist()
