"""docs/when-things-fail.md and docs/deploy.md say what the code says."""

from __future__ import annotations

import ast
import re
from functools import cache
from pathlib import Path

import pytest
import typer

from rechannel import errors
from rechannel.cli.app import app
from tests.pages import DOCS

ROOT = DOCS.parent
FAULTS = (
    "A task fails",
    "An executor is killed",
    "A host dies",
    "The network is cut",
    "The driver dies",
    "Two drivers",
    "The store is unreachable",
    "Kafka is unreachable",
    "A sink fails",
    "A poison row",
    "A disk is full",
    "A bad change",
    "A stop takes too long",
)


def page(name: str) -> str:
    return (DOCS / f"{name}.md").read_text(encoding="utf-8")


def one_line(text: str) -> str:
    return " ".join(text.split())


@cache
def templates() -> tuple[str, ...]:
    """All texts in the source, with "…" for what is put in."""
    return tuple(
        one_line(text)
        for path in sorted((ROOT / "src" / "rechannel").rglob("*.py"))
        for text in texts_of(path)
    )


def texts_of(path: Path) -> list[str]:
    found, inside = [], set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.JoinedStr):
            parts = [
                getattr(part, "value", "") if isinstance(part, ast.Constant) else "…"
                for part in node.values
            ]
            found.append("".join(map(str, parts)))
            inside.update(map(id, node.values))
        elif (
            isinstance(node, ast.Constant)
            and isinstance(node.value, str)
            and id(node) not in inside
        ):
            found.append(re.sub(r"%[-.\d]*[srdf]", "…", node.value))
    return found


def quotes(text: str) -> list[str]:
    """Messages that a page quotes: code with words, or with a place for some."""
    spans = re.findall(r"(?<!`)`([^`\n]+)`(?!`)", re.sub(r"```.*?```", "", text, flags=re.DOTALL))
    return [one for one in spans if "…" in one or (" are " in one or ": " in one)]


@pytest.mark.parametrize("name", ["when-things-fail", "deploy"])
def test_every_message_that_is_quoted_is_one_of_the_code(name: str) -> None:
    found = quotes(page(name))
    assert len(found) >= {"when-things-fail": 20, "deploy": 1}[name]
    wrong = [one for one in found if not any(one_line(one) in text for text in templates())]
    assert wrong == []


def test_a_message_that_the_code_does_not_have_would_be_found() -> None:
    assert not any("the flux of … is …" in text for text in templates())
    assert quotes("see `the flux of … is …` and `rc.session`") == ["the flux of … is …"]


def test_every_fault_has_its_part() -> None:
    titles = re.findall(r"^## (.*)$", page("when-things-fail"), re.MULTILINE)
    assert tuple(titles) == FAULTS


@pytest.mark.parametrize("name", ["when-things-fail", "deploy"])
def test_options_and_errors_are_there(name: str) -> None:
    text = page(name)
    run = typer.main.get_command(app).commands["run"]  # type: ignore[attr-defined]
    known = {option for parameter in run.params for option in parameter.opts}
    of_others = {"--launcher", "--master", "--name", "--driver-memory", "--deploy-mode", "--files"}
    of_others |= {"--yes", "--archives", "--conf", "--py-files", "--from-literal"}
    assert set(re.findall(r"(?<![\w-])--[a-z-]+", text)) <= known | of_others
    for error in re.findall(r"`(\w+Error)`", text):
        assert hasattr(errors, error)


def test_the_page_shows_the_program_that_the_files_run() -> None:
    (program,) = re.findall(r"```python\n(.*?)```", page("deploy"), re.DOTALL)
    assert program == (ROOT / "deploy" / "job.py").read_text(encoding="utf-8")


def test_the_folders_that_the_page_names_are_there() -> None:
    for name in re.findall(r"`(deploy/[\w@./-]*)`", page("deploy")):
        assert (ROOT / name).exists(), name
