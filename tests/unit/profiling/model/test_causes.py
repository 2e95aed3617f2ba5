"""The table of causes has every cause that a finding may have, and the page has the table."""

import ast
import re
from importlib import import_module
from pathlib import Path

from rechannel.profiling.model import causes
from rechannel.profiling.model.causes import CAUSES
from rechannel.profiling.model.limits import ANY, SLOWER
from scripts.finding_table import PAGE, with_table

PACKAGE = Path(causes.__file__).parents[1]
ROOT = PACKAGE.parents[2]


def named(file):
    """Causes in the source of a module: what `cause=` is given, and the words that functions called `finding` are."""
    module = import_module(".".join(file.relative_to(ROOT / "src").with_suffix("").parts))
    for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
        if isinstance(node, ast.keyword) and node.arg == "cause":
            given = [node.value]
        elif isinstance(node, ast.Call) and ast.unparse(node.func).endswith("finding"):
            given = [each for each in node.args if isinstance(each, ast.Constant)]
        else:
            continue
        for part in (each for value in given for each in ast.walk(value)):
            if isinstance(part, ast.Constant) and re.fullmatch(
                r"[a-z]+(-[a-z]+)*", str(part.value)
            ):
                yield part.value
            elif isinstance(part, ast.Name) and part.id.isupper():
                yield getattr(module, part.id)


def test_every_cause_of_a_finding_is_in_the_table():
    files = [*(PACKAGE / "diagnosis").glob("*.py"), *(PACKAGE / "model").glob("*.py")]
    found = {cause for file in files for cause in named(file)}
    assert found
    assert found <= set(CAUSES)


def test_causes_are_words_that_a_limit_can_name():
    assert not {ANY, SLOWER} & set(CAUSES)
    assert all(cause == cause.lower() and " " not in cause and ">" not in cause for cause in CAUSES)
    assert all(each.means.endswith(".") and each.change.endswith(".") for each in CAUSES.values())


def test_the_page_has_the_table():
    page = PAGE.read_text(encoding="utf-8")
    assert "<!-- findings -->" in page
    assert with_table(page) == page, "run scripts/finding_table.py"


def test_the_table_is_made_anew_between_its_marks():
    made = with_table("before\n\n<!-- findings -->\n\nstale\n\n<!-- end -->\nafter\n")
    assert made.startswith("before\n\n<!-- findings -->\n\n| finding |")
    assert made.endswith("|\n\n<!-- end -->\nafter\n")
    assert "| `skew` | " in made
    assert "stale" not in made
