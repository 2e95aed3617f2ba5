"""The decision records: numbered without gaps, dated, complete, and all in the index."""

import re
from pathlib import Path

import pytest

FOLDER = Path(__file__).parents[2] / "docs" / "decisions"
INDEX = (FOLDER / "README.md").read_text(encoding="utf-8")
RECORDS = sorted(path for path in FOLDER.glob("*.md") if path.name != "README.md")
SECTIONS = ["Context", "Decision", "Alternatives", "Consequences"]


def test_numbers_have_no_gaps():
    assert [path.name[:5] for path in RECORDS] == [f"{n:04}-" for n in range(1, len(RECORDS) + 1)]


@pytest.mark.parametrize("path", RECORDS, ids=lambda path: path.stem)
def test_a_record_is_dated_complete_and_in_the_index(path):
    number = path.name[:4]
    lines = path.read_text(encoding="utf-8").splitlines()
    title = lines[0].removeprefix(f"# {number}: ")
    date = re.fullmatch(r"(\d{4}-\d{2}-\d{2}), (accepted|replaced by \d{4})", lines[2])
    assert [line[3:] for line in lines if line.startswith("## ")] == SECTIONS
    assert date
    assert f"| [{number}]({path.name}) | {title} | {date[1]} |" in INDEX
