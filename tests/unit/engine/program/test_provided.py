"""A state directory names functions; what a start imports and calls, the program says."""

from __future__ import annotations

import json
import sys

import pyarrow as pa
import pytest

import rechannel as rc
from rechannel.dataflow.streams.stream import dataflow_of
from rechannel.errors import DataflowError, OtherDataflowError
from rechannel.operators.process.track_spec import TrackSpec
from rechannel.state.sealed import seal
from rechannel.state.stores.memory import MemoryStore
from rechannel.testing import Harness, script

RULES = """
import pyarrow as pa
CALLED = []

def doubled(batch):
    CALLED.append(batch.num_rows)
    return pa.record_batch({"twice": pa.array([2 * v for v in batch["total"].to_pylist()], pa.int64())})

def other(batch):
    CALLED.append("other")
    return doubled(batch)

def total(key, state, rows):
    return (state or 0) + 2 * sum(rows["v"])
"""


@pytest.fixture
def modules(tmp_path, monkeypatch):
    """Write modules into a path of their own; they are forgotten at the end."""
    monkeypatch.syspath_prepend(tmp_path)
    before = set(sys.modules)

    def write(name, text=RULES):
        (tmp_path / f"{name}.py").write_text(text)

    yield write
    for name in set(sys.modules) - before:
        if name.startswith("provided_"):
            del sys.modules[name]


def summed(key, state, rows):
    return (state or 0) + sum(rows["v"])


def flow(rows, function, state):
    stream = rc.read().memory(rows, name="rows")
    return stream.key_by("k").track(function, state=state, name="op")


def migrated(write, using="doubled"):
    """A state directory after a live change whose state of before is still stored; the module of its functions."""
    write("provided_rules")
    import provided_rules as rules

    store = MemoryStore()
    rows = script("k string, v bigint", [])
    harness = Harness(flow(rows, summed, "total bigint"), store=store)
    process = harness.start()
    rows.push([{"k": "a", "v": 1}, {"k": "b", "v": 2}])
    process.run()
    spec = TrackSpec(update=rules.total, state=pa.schema([("twice", pa.int64())]))
    process.reconfigure(
        rc.changes.change_logic("op", spec, migrate=rc.changes.migrate(using=getattr(rules, using)))
    )
    rows.push([{"k": "a", "v": 3}])
    process.run()
    process.stop()
    return store, rows, rules


def rewritten(store, change):
    """Exchange what every journal entry and snapshot says, as somebody could who writes into the directory."""
    touched = 0
    for key in list(store.list("journal/")):
        record = json.loads(bytes(store.read(key)))
        record.pop("xxh3", None)
        text = json.dumps(record)
        if change(text) != text:
            store.put(key, seal(json.loads(change(text))))
            touched += 1
    assert touched


def state(harness):
    return {row["k"]: row["twice"] for row in harness.state("op").to_pylist()}


def test_a_function_beside_those_of_the_program_is_found(modules):
    store, rows, rules = migrated(modules)
    again = Harness(flow(rows, rules.total, "twice bigint"), store=store)
    again.start()
    assert state(again) == {"a": 8, "b": 4}


@pytest.mark.parametrize("loaded", [False, True])
def test_what_only_the_state_directory_names_is_neither_imported_nor_called(modules, loaded):
    store, rows, rules = migrated(modules)
    modules("provided_evil")
    if loaded:
        __import__("provided_evil")
    rewritten(store, lambda text: text.replace("provided_rules:doubled", "provided_evil:doubled"))
    rules.CALLED.clear()
    again = Harness(flow(rows, rules.total, "twice bigint"), store=store)
    with pytest.raises(OtherDataflowError, match=r"never imported.*migrations=\[doubled\]"):
        again.start()
    assert loaded == ("provided_evil" in sys.modules)
    assert not loaded or sys.modules["provided_evil"].CALLED == []


def test_another_function_of_the_programs_own_module_is_told_by_its_digest(modules):
    store, rows, rules = migrated(modules)
    rewritten(store, lambda text: text.replace("provided_rules:doubled", "provided_rules:other"))
    rules.CALLED.clear()
    again = Harness(flow(rows, rules.total, "twice bigint"), store=store)
    with pytest.raises(OtherDataflowError, match="is another function by now"):
        again.start()
    assert rules.CALLED == []


def test_a_function_that_the_module_has_from_elsewhere_is_not_its_own(modules):
    store, rows, rules = migrated(modules)
    rules.system = __import__("os").system
    rewritten(store, lambda text: text.replace("provided_rules:doubled", "provided_rules:system"))
    again = Harness(flow(rows, rules.total, "twice bigint"), store=store)
    with pytest.raises(OtherDataflowError, match="does not provide"):
        again.start()


def test_a_function_from_elsewhere_is_given_to_the_job(modules):
    modules("provided_elsewhere")
    store, rows, rules = migrated(modules)
    import provided_elsewhere as elsewhere

    rewritten(
        store, lambda text: text.replace("provided_rules:doubled", "provided_elsewhere:doubled")
    )
    again = Harness(flow(rows, rules.total, "twice bigint"), store=store)
    with pytest.raises(OtherDataflowError, match="does not provide"):
        again.start()
    again.start(migrations=[elsewhere.doubled])
    assert state(again) == {"a": 8, "b": 4}
    assert elsewhere.CALLED


@pytest.mark.parametrize("python", ["now", "then"])
def test_a_given_function_is_compared_unless_its_digest_is_of_another_python(
    modules, python, caplog
):
    store, rows, rules = migrated(modules)
    digest = next(
        entry["migrations"]["op"][0]["migration"]["using"]["digest"]
        for entry in Harness(flow(rows, rules.total, "twice bigint"), store=store)
        .journal_state()
        .notes["program"]
        .values()
        if entry.get("migrations", {}).get("op")
    )
    now = '"python": "' + ".".join(map(str, sys.version_info[:2])) + '"'

    def change(text):
        text = text.replace(digest, "0" * 64)
        return text if python == "now" else text.replace(now, '"python": "3.0"')

    rewritten(store, change)
    again = Harness(flow(rows, rules.total, "twice bigint"), store=store)
    if python == "now":
        with pytest.raises(OtherDataflowError, match="is another function by now"):
            again.start(migrations=[rules.doubled])
    else:
        again.start(migrations=[rules.doubled])
        assert state(again) == {"a": 8, "b": 4}
        assert "its digest is one of another Python" in caplog.text


def test_what_cannot_be_found_again_is_no_migration(tmp_path):
    rows = script("k string, v bigint", [])
    stream = flow(rows, summed, "total bigint")
    assert dataflow_of(stream)
    for wrong in (lambda batch: batch, 5):
        with pytest.raises(DataflowError, match="at the top of a module"):
            rc.Job("job", stream, state=tmp_path / "state", migrations=[wrong])
