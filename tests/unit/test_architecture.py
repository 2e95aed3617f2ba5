"""ARCHITECTURE.md names files and folders that exist, where a reader looks for them."""

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PACKAGE = ROOT / "src" / "rechannel"
PAGE = (ROOT / "ARCHITECTURE.md").read_text(encoding="utf-8")
NAME = re.compile(r"`((?:[a-z_0-9-]+/)*(?:[a-z_0-9-]+\.(?:py|md)|[a-z_0-9-]+/))`")


def named(page: str) -> Iterator[tuple[str, list[Path]]]:
    """Every path of a page, and the folders in which a reader looks for it.

    Those are the package, the root, the folder that the section gives to files without one, and the
    folders of the paths before it in its row, item or paragraph.
    """
    for section in re.split(r"\n(?=## )", page):
        default = re.search(r"without a folder are in `([a-z_/]+)`", section)
        for passage in re.split(r"\n(?=\||\n|\d+\. |- )", section):
            folders = [PACKAGE, ROOT, *([PACKAGE / default[1]] if default else [])]
            for name in NAME.findall(passage):
                yield name, list(folders)
                found = [folder / name for folder in folders if (folder / name).exists()]
                folders += [path if path.is_dir() else path.parent for path in found]


def missing(page: str) -> list[str]:
    """Paths that a reader does not find."""
    return [
        name for name, folders in named(page) if not any((each / name).exists() for each in folders)
    ]


def test_every_path_exists():
    assert len(list(named(PAGE))) > 100
    assert missing(PAGE) == []


@pytest.mark.parametrize(
    ("page", "names"),
    [
        ("a segment: `state/segments/segment.py`, `blocks.py`", []),
        ("a segment: `blocks.py`, `state/segments/segment.py`", ["blocks.py"]),
        ("| a | `state/segments/segment.py` |\n| b | `blocks.py` |", ["blocks.py"]),
        ("Files without a folder are in `reconfigure/`.\n\n- `record.py`", []),
        ("`nowhere/` and `docs/`", ["nowhere/"]),
    ],
)
def test_a_name_without_a_folder_is_looked_for_where_the_text_says(page, names):
    assert missing(page) == names


def test_it_stays_two_screens_and_a_glossary():
    words = PAGE[: PAGE.index("## Glossary")].splitlines()
    assert len(words) < 120
