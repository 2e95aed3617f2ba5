"""The registry has every operator, and what goes through it finds what it needs."""

from __future__ import annotations

import importlib
import inspect
import pkgutil
from pathlib import Path

import pytest

import rechannel.operators
from rechannel.dataflow.streams.keyed import KeyedStream
from rechannel.dataflow.streams.stream import Stream
from rechannel.dataflow.streams.windowed import WindowedStream
from rechannel.operators.registry import OPERATORS
from rechannel.operators.spec import OperatorSpec

PAGES = Path(__file__).parents[3] / "docs"


def specs() -> set[type]:
    found = set()
    for each in pkgutil.walk_packages(rechannel.operators.__path__, "rechannel.operators."):
        module = importlib.import_module(each.name)
        found |= {kind for kind in vars(module).values() if inspect.isclass(kind)}
    return {
        kind for kind in found if issubclass(kind, OperatorSpec) and not inspect.isabstract(kind)
    }


def test_every_operator_has_a_line():
    assert {each.spec for each in OPERATORS} == specs()


@pytest.mark.parametrize("each", OPERATORS, ids=lambda each: each.spec.__name__)
def test_an_operator_has_a_method_and_a_page_that_shows_it(each):
    assert any(hasattr(kind, each.method) for kind in (Stream, KeyedStream, WindowedStream))
    assert f".{each.method}(" in (PAGES / each.page).read_text()
    assert each.family in {"aggregate", "process", "window", "join", "ordered"}


@pytest.mark.parametrize("family", ["aggregate", "process", "window", "join", "ordered"])
def test_a_folder_has_at_most_twenty_modules(family):
    place = Path(rechannel.operators.__file__).parent / family
    assert len(list(place.glob("*.py"))) - 1 <= 20
