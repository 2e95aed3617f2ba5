"""The table of causes has every cause that a finding may have, and the page has the table."""

import ast
from importlib import import_module
from pathlib import Path

from rechannel.profiling.model import causes
from rechannel.profiling.model.causes import CAUSES
from rechannel.profiling.model.limits import ANY, SLOWER

PACKAGE = Path(causes.__file__).parents[1]
ROOT = PACKAGE.parents[2]


def named(file):
    """Causes in the source of a module: what `cause=` is given, in calls."""
    module = import_module(".".join(file.relative_to(ROOT / "src").with_suffix("").parts))
    for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
        if isinstance(node, ast.keyword) and node.arg == "cause":
            if isinstance(node.value, ast.Constant):
                yield node.value.value
            elif isinstance(node.value, ast.Name) and node.value.id.isupper():
                yield getattr(module, node.value.id)


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
    page = (ROOT / "docs" / "profiling.md").read_text(encoding="utf-8")
    rows = [f"| `{name}` | {each.means} | {each.change} |" for name, each in CAUSES.items()]
    table = page.partition("## What findings mean")[2].partition("\n## ")[0]
    assert [line for line in table.splitlines() if line.startswith("| `")] == rows
