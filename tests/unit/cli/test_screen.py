"""What others named cannot command the terminal."""

import io
import json
import math
import os
import subprocess
import sys
import unicodedata
from datetime import time

import pytest
from rich.console import Group
from rich.live import Live
from rich.text import Text

from rechannel.cli import screen
from rechannel.cli.screen import (
    SafeConsole,
    complain,
    in_line,
    say,
    show,
    show_json,
    show_prose,
    show_table,
    table,
    visible,
)

HOSTILE = "orders\x1b]0;owned\x07\x1b[2J\x9b31m\x00\x7f\r\u202egnp.exe\u2066\udc80"
"""Sets the title, clears the screen, changes colours, rewrites the line, turns the direction of writing around."""


def obeyed(text):
    """The characters of an output that a terminal acts on, but line feeds."""
    return {
        c for c in text if c != "\n" and unicodedata.category(c) in {"Cc", "Cf", "Cs", "Zl", "Zp"}
    }


def test_every_control_character_has_a_picture_of_one_column():
    every = "".join(map(chr, range(0xA0))) + HOSTILE
    shown = visible(every)
    assert len(shown) == len(every)
    assert obeyed(shown) == {"\t"}
    assert obeyed(in_line(every)) == set()
    assert in_line("a\nb\tc") == "a␊b␉c"
    assert visible("ESC is \x1b, DEL \x7f") == "ESC is ␛, DEL ␡"


def test_other_texts_stay_as_they_are():
    text = "größe 数据 🙂 a\u0301 \u00a0 {curly} [bold]not markup[/bold]\n\tnext"
    assert visible(text) == text


@pytest.mark.parametrize(
    "print_it",
    [
        show,
        say,
        show_prose,
        lambda text: complain(ValueError(text)),
        lambda text: show_json({text: [text]}),
        lambda text: show_json(text, indent=None),
    ],
)
def test_no_output_commands_the_terminal(print_it, capsys):
    print_it(HOSTILE)
    printed = "".join(capsys.readouterr())
    assert "orders" in printed
    assert obeyed(printed) == set()


def test_cells_and_headers_of_tables_neither(capsys):
    rows = table(HOSTILE, "n", right=("n",))
    rows.add_row(HOSTILE, "1")
    show_table(rows)
    printed = capsys.readouterr().out
    assert printed.count("owned") == 2
    assert obeyed(printed) == set()


def test_nor_texts_with_styles_in_a_live_display():
    console = SafeConsole()
    console.file = io.StringIO()
    with Live(
        Group(Text.assemble((HOSTILE, "bold"), " runs")), console=console, auto_refresh=False
    ):
        pass
    assert "owned" in console.file.getvalue()
    assert obeyed(console.file.getvalue()) == set()


def test_json_means_the_same(capsys):
    value = {"name": HOSTILE, "size": "größe"}
    show_json(value)
    printed = capsys.readouterr().out
    assert json.loads(printed) == value
    assert "größe" in printed


def test_json_has_texts_for_what_are_no_numbers_in_it(capsys):
    far = [math.nan, math.inf, -math.inf]
    show_json({"far": far, "rows": [{"at": time(12, 30), "x": 1.5}], "none": None})
    printed = json.loads(capsys.readouterr().out, parse_constant=pytest.fail)
    assert printed == {
        "far": ["NaN", "Infinity", "-Infinity"],
        "rows": [{"at": "12:30:00", "x": 1.5}],
        "none": None,
    }


@pytest.mark.parametrize("encoding", ["ascii", "latin-1", "utf-8"])
def test_what_a_terminal_cannot_show_ends_no_command(encoding, tmp_path):
    """Neither in a table, nor in JSON, which stays JSON."""
    code = (
        "import rechannel.cli as cli; from rechannel.cli import screen;"
        "run = lambda argv: (screen.show('größe ▁█ 漢'), screen.show_json({'größe': '漢'}), 0)[2];"
        "cli.execute = run; cli.main()"
    )
    told = subprocess.run(
        [sys.executable, "-c", code],
        env={**os.environ, "PYTHONIOENCODING": encoding},
        capture_output=True,
        check=True,
        cwd=tmp_path,
    )
    first, _, more = told.stdout.decode(encoding).partition("\n")
    assert first.startswith("gr")
    assert json.loads(more) == {"größe": "漢"}


def test_paragraphs_are_wrapped_on_a_terminal_and_only_there(monkeypatch, capsys):
    text = " ".join(["nine chars"] * 6 + ["it takes 43 % of 12 min"] * 9)
    show_prose(text, indent=2)
    assert capsys.readouterr().out == f"  {text}\n"
    monkeypatch.setattr(SafeConsole, "is_terminal", True)
    monkeypatch.setenv("COLUMNS", "120")
    show_prose(text, indent=2)
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) > 2
    assert max(map(len, lines)) <= screen.PROSE
    assert all(line.startswith("  ") and line == line.rstrip() for line in lines)
    assert " ".join(line.strip() for line in lines) == text
    # A unit stays with its figure.
    assert not any(line.strip().startswith(("%", "min")) for line in lines)
