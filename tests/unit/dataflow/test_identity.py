"""Which logic a node runs: what counts, what does not, and how it is found again."""

from __future__ import annotations

import functools
import json
import subprocess
import sys
import threading
from dataclasses import dataclass
from enum import Enum
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest

from rechannel.dataflow.identity.digests import digest_of, path_of
from rechannel.dataflow.identity.logic import dataflow_identity, load_logic, logic_identity
from rechannel.dataflow.streams.aggregates import count, last_n, sum
from rechannel.dataflow.streams.stream import dataflow_of
from rechannel.errors import DataflowError
from tests.support.flights import flights, same


def made(source: str, name: str = "f", module: str = "some") -> Any:
    """A function out of a module's text, compiled under a file name of its own."""
    names: dict[str, Any] = {"__name__": module}
    exec(compile(source, f"file {hash(source)}", "exec"), names)
    return names[name]


BASE = "LIMIT = 3\ndef help(x):\n    return x < LIMIT\ndef f(row, y=2):\n    return help(row) * y\n"


@pytest.mark.parametrize(
    "source",
    [
        "\n\n# a comment\n" + BASE,
        BASE.replace("def f", "\n\n\ndef f").replace("return help", "# why\n    return help"),
        BASE.replace("(row, y=2):", '(row, y=2):\n    "What it does."'),
        BASE.replace("def help(x):", 'def help(x):\n    """Helps."""'),
        BASE + "OTHER = 5\ndef other(): pass\n",
    ],
)
def test_lines_comments_and_docstrings_do_not_count(source):
    assert digest_of(made(source)) == digest_of(made(BASE))


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("LIMIT = 3", "LIMIT = 4"),
        ("x < LIMIT", "x <= LIMIT"),
        ("y=2", "y=3"),
        ("* y", "+ y"),
        ("(row, y=2)", "(row, *, y=2)"),
        ("return help(row)", "return max(row, 1)"),
        ("x < LIMIT", "x < 3"),
    ],
)
def test_what_it_does_counts(old, new):
    assert digest_of(made(BASE.replace(old, new))) != digest_of(made(BASE))


def test_inner_functions_and_caught_errors_count():
    inner = "def f(row):\n    def g(x):\n        {}\n        return x + 1\n    return g(row)\n"
    plain = digest_of(made(inner.format("'doc'")))
    assert plain == digest_of(made(inner.format("'other'")))
    assert plain != digest_of(made(inner.format("x = x + 1")))
    caught = "def f(x):\n    try:\n        return int(x)\n    except {}:\n        return 0\n"
    assert digest_of(made(caught.format("ValueError"))) != digest_of(
        made(caught.format("TypeError"))
    )
    assert digest_of(lambda x: "a") != digest_of(lambda x: "b")


def test_what_a_function_closes_over_counts():
    def closing(value: Any) -> Any:
        return lambda row: row == value

    values = [1, 1.0, "1", (1,), [1], {"a": 1}, {1}, None, b"1", np.int64(1), np.arange(2)]
    values += [pa.int8(), pa.schema([("a", pa.int8())]), np.add, pc.add, pc.subtract, closing(1)]
    digests = [digest_of(closing(value)) for value in values]
    assert len({digest.text for digest in digests}) == len(values)
    assert all(digest.complete for digest in digests)
    assert digest_of(closing({2, 1, 3})) == digest_of(closing({3, 2, 1}))


def test_what_cannot_be_read_is_said():
    lock = threading.Lock()
    digest = digest_of(lambda row: lock)
    assert not digest.complete
    assert digest == digest_of(lambda row: lock)
    cached = made("CACHE = {}\ndef f(x):\n    return CACHE.get(x)\n")
    assert not digest_of(cached).complete


def test_functions_that_call_themselves_and_each_other():
    source = "def f(n):\n    return n and g(n - 1)\ndef g(n):\n    return n and f(n - {})\n"
    assert digest_of(made(source.format(1))) == digest_of(made("\n" + source.format(1)))
    assert digest_of(made(source.format(1))) != digest_of(made(source.format(2)))
    loop: list[Any] = []
    loop.append(loop)
    assert digest_of(loop).complete


class Colour(Enum):
    RED = 1


@dataclass(frozen=True)
class Scale:
    by: float

    def __call__(self, row: Any) -> Any:
        return self.helped(row)

    def helped(self, row: Any) -> Any:
        return row * self.by


class Plain:
    def __init__(self, by: float) -> None:
        self.by = by

    def __call__(self, row: Any) -> Any:
        return row * self.by

    def method(self, row: Any) -> Any:
        return row


def test_objects_that_can_be_called():
    assert digest_of(Scale(1.0)) == digest_of(Scale(1.0)) != digest_of(Scale(2.0))
    assert digest_of(Plain(1.0)) == digest_of(Plain(1.0)) != digest_of(Plain(2.0))
    assert digest_of(Plain(1.0).method) == digest_of(Plain(1.0).method)
    assert digest_of(functools.partial(same, 1)) != digest_of(functools.partial(same, 2))
    assert digest_of(functools.cache(same)) == digest_of(functools.cache(same))
    assert digest_of([Colour.RED, Plain, len, json]).complete
    local = type("Local", (), {"__qualname__": "f.<locals>.Local", "go": lambda self: 1})
    other = type("Local", (), {"__qualname__": "f.<locals>.Local", "go": lambda self: 2})
    assert digest_of(local) != digest_of(other)


def test_another_process_gives_the_same_digest():
    code = (
        "from tests.unit.dataflow.test_identity import BASE, made\n"
        "from rechannel.dataflow.identity.digests import digest_of\n"
        "print(digest_of(made(BASE)).text, digest_of({'a', 'b', 'c'}).text)"
    )
    out = subprocess.run(
        [sys.executable, "-c", code],
        check=True, capture_output=True, text=True, env={"PYTHONPATH": "src:.", "PYTHONHASHSEED": "7"},
    ).stdout.split()  # fmt: skip
    assert out == [digest_of(made(BASE)).text, digest_of({"a", "b", "c"}).text]


def node(stream: Any) -> Any:
    return stream.node


def test_the_identity_of_nodes():
    from_module = logic_identity(node(flights().map_batches(same)))
    assert from_module.path == "tests.support.flights:same"
    assert from_module.importable
    row = logic_identity(node(flights().map(len, "n INT")))
    assert row.path == "builtins:len"
    local = logic_identity(node(flights().filter(lambda row: True)))
    assert (local.path, local.importable) == (None, False)
    sql = [logic_identity(node(flights().filter(f"distance > {n}"))) for n in (1, 1, 2)]
    assert sql[0] == sql[1] != sql[2]
    assert sql[0].path is None


def test_names_keys_and_tasks_are_not_logic():
    keyed = flights().key_by("carrier")
    other = flights("other").map_batches(same).key_by("carrier", "origin")
    one = logic_identity(node(keyed.aggregate(n=count(), tail=last_n("distance", 2))))
    two = logic_identity(node(other.aggregate(n=count(), tail=last_n("distance", 2), tasks=3)))
    assert one == two
    assert one != logic_identity(node(keyed.aggregate(n=count(), tail=last_n("distance", 3))))
    assert one != logic_identity(node(keyed.aggregate(n=count(), tail=sum("distance"))))


def test_track_counts_functions_state_and_timeout():
    def tracked(**more: Any) -> Any:
        stated = {"update": lambda k, s, r: 1, "state": "n INT", **more}
        return logic_identity(
            node(flights().key_by("carrier").track(stated.pop("update"), **stated))
        )

    assert tracked() == tracked()
    for more in (
        {"update": lambda k, s, r: 2},
        {"state": "n BIGINT"},
        {"timeout": 5},
        {"init_state": lambda k, r: 1},
    ):
        assert tracked(**more) != tracked()


def test_the_identity_of_a_dataflow_is_plain():
    stream = flights().map_batches(same, name="kept")
    counts = stream.key_by("carrier").aggregate(n=count(), name="counts")
    found = dataflow_identity(dataflow_of(counts.write.parquet("out"), stream.write.noop()))

    assert json.loads(json.dumps(found)) == found
    assert list(found) == ["flights", "kept", "counts", "parquet-out", "kept.noop"]
    assert found["kept"]["path"] == "tests.support.flights:same"
    assert found["counts"]["upstreams"] == ["kept"]
    assert found["counts"]["keys"] == ["carrier"]
    assert [len(entry["digest"]) for entry in found.values()] == [64] * 5
    assert {entry["kind"] for entry in found.values()} == {"source", "map", "aggregate", "sink"}


def test_logic_is_loaded_by_its_path():
    assert load_logic("tests.support.flights:same") is same
    assert load_logic("tests.unit.dataflow.test_identity:Plain.method").__name__ == "method"


@pytest.mark.parametrize(
    ("path", "reason"),
    [
        ("no_such_module:f", "cannot import 'no_such_module'.*ModuleNotFoundError"),
        ("json:nothing", "there is no 'nothing' in module 'json'"),
        ("json:__name__", "is a str, which cannot be called"),
        ("json", "is not the import path"),
        (":f", "is not the import path"),
        ("json:", "is not the import path"),
        (None, "is not the import path"),
        ("some:<lambda>", "is a lambda or a function inside a function"),
        ("some:f.<locals>.g", "define it at the top of a module"),
        ("__main__:f", "move it into a module of its own"),
    ],
)
def test_what_cannot_be_loaded(path, reason):
    with pytest.raises(DataflowError, match=reason):
        load_logic(path)


def test_paths():
    assert path_of(same) == "tests.support.flights:same"
    assert path_of(lambda: 0) is None
    assert path_of(functools.partial(same)) is None
