"""The docs site has every page, and begins with the program that a test of README.md runs."""

import re
from pathlib import Path

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"


def test_every_page_is_in_the_navigation():
    listed = re.findall(
        r"^ +- (?:\w+: )?([\w/-]+\.md)$", (ROOT / "mkdocs.yml").read_text("utf-8"), re.M
    )
    records = {path for path in DOCS.glob("decisions/*.md") if path.name != "README.md"}
    pages = set(DOCS.rglob("*.md")) - records
    assert sorted(listed) == sorted(str(page.relative_to(DOCS)) for page in pages)


def test_the_first_page_has_the_program_of_the_readme():
    programs = [
        re.search(r"```python\n(.*?)```", path.read_text("utf-8"), re.DOTALL)[1]
        for path in (ROOT / "README.md", DOCS / "README.md")
    ]
    assert programs[0] == programs[1]
