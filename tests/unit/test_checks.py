"""What the configuration of the checks names exists: a check of nothing would pass."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
SOURCE = ROOT / "src"
PYPROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
TOOLS = PYPROJECT["tool"]
CONTRACTS = TOOLS["importlinter"]["contracts"]


def exists(module: str) -> bool:
    """Whether a module or package of ours exists."""
    path = SOURCE.joinpath(*module.split("."))
    return path.with_suffix(".py").is_file() or (path / "__init__.py").is_file()


def ours(contract: dict) -> Iterator[str]:
    """Every module of ours that a contract names."""
    for layer in contract.get("layers", ()):
        names = [name.strip() for name in layer.split("|")]
        yield from (f"{root}.{name}" for root in contract["containers"] for name in names)
    named = [
        *contract.get("containers", ()),
        *contract.get("ancestors", ()),
        *contract.get("source_modules", ()),
        *contract.get("forbidden_modules", ()),
        *(end for line in contract.get("ignore_imports", ()) for end in line.split(" -> ")),
    ]
    yield from (name for name in named if name.split(".")[0] == "rechannel")


def variable(name: str) -> str:
    """The value of a variable of the Makefile."""
    text = (ROOT / "Makefile").read_text(encoding="utf-8")
    return re.search(rf"^{name} *[:?]?= *(.*)$", text, re.MULTILINE)[1]


@pytest.mark.parametrize("contract", CONTRACTS, ids=lambda contract: contract["name"])
def test_contracts_of_imports_name_modules_that_exist(contract):
    names = list(ours(contract))
    assert names
    assert [name for name in names if not exists(name)] == []


@pytest.mark.parametrize("contract", CONTRACTS, ids=lambda contract: contract["name"])
def test_every_layer_has_to_be_there(contract):
    assert [layer for layer in contract.get("layers", ()) if "(" in layer] == []
    assert contract["type"] != "layers" or contract["exhaustive"]


def test_packages_without_effects_that_are_measured_exist():
    patterns = variable("PURE").split(",")
    assert [each for each in patterns if not list(ROOT.glob(each))] == []


def test_pages_that_are_formatted_exist():
    assert [each for each in variable("PAGES").split() if not list(ROOT.glob(each))] == []


def test_files_that_are_type_checked_or_left_out_exist():
    types = TOOLS["mypy"]
    assert [path for path in types["files"] if not list((ROOT / path).rglob("*.py"))] == []
    modules = [path.relative_to(ROOT).as_posix() for path in (ROOT / "tests").rglob("*.py")]
    for pattern in types["exclude"]:
        assert [name for name in modules if re.search(pattern, name)], pattern


def test_exceptions_of_the_style_check_are_for_files_that_exist():
    patterns = TOOLS["ruff"]["lint"]["per-file-ignores"]
    assert [each for each in patterns if not list(ROOT.glob(each))] == []


def test_what_is_packaged_exists():
    targets = TOOLS["hatch"]["build"]["targets"]
    names = [*targets["wheel"]["packages"], *targets["sdist"]["include"]]
    assert [name for name in names if not list(ROOT.glob(name.lstrip("/")))] == []
