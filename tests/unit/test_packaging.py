"""The promises of pyproject.toml: what it admits is what the project tries out."""

from __future__ import annotations

import importlib.metadata
import re
import tomllib
from pathlib import Path

import pytest

from rechannel.version import __version__

ROOT = Path(__file__).parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]


def release(version: str) -> tuple[int, ...]:
    """The numbers of a version without the zeros at its end, so that 4.2 and 4.2.0 are one."""
    numbers = [int(part) for part in version.split(".") if part.isdigit()]
    while numbers and numbers[-1] == 0:
        numbers.pop()
    return tuple(numbers)


def bounds(requirement: str) -> tuple[str, tuple[int, ...], tuple[int, ...]]:
    """Name, oldest admitted release and first refused release of a requirement ``a>=1,<2``."""
    name, _, rest = requirement.partition(">=")
    oldest, _, refused = rest.partition(",<")
    return name, release(oldest), release(refused)


REQUIREMENTS = [bounds(requirement) for requirement in PROJECT["dependencies"]]
TRIED_EXTRAS = ("otel",)
"""Extras of which the oldest releases are tried, too."""
TRIED = [
    *REQUIREMENTS,
    *(bounds(each) for extra in TRIED_EXTRAS for each in PROJECT["optional-dependencies"][extra]),
]


def test_every_dependency_has_both_bounds():
    assert all(name and oldest and refused for name, oldest, refused in TRIED)


def test_the_oldest_releases_tried_are_the_oldest_admitted():
    lines = (ROOT / "scripts" / "lowest.txt").read_text(encoding="utf-8").splitlines()
    pins = [line.split("==") for line in lines if line and not line.startswith("#")]
    tried = {name: release(version) for name, version in pins}
    assert tried == {name: oldest for name, oldest, _ in TRIED}


def test_package_project_and_changelog_state_one_version():
    changelog = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    newest = re.search(r"^## \[(\d+\.\d+\.\d+)\] - \d{4}-\d{2}-\d{2}$", changelog, re.MULTILINE)
    assert newest
    assert PROJECT["version"] == __version__ == newest[1]


@pytest.mark.parametrize(("name", "oldest", "refused"), TRIED, ids=str)
def test_the_tests_run_with_admitted_releases(name, oldest, refused):
    assert oldest <= release(importlib.metadata.version(name)) < refused
