"""Scripts that take pictures open one browser, in one place."""

from __future__ import annotations

from pathlib import Path

import pytest

from scripts.chromium import chromium

SCRIPTS = Path(__file__).parents[2] / "scripts"


def test_without_chromium_it_says_what_to_do(monkeypatch, tmp_path):
    monkeypatch.delenv("CHROMIUM", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path))
    with (
        pytest.raises(SystemExit, match=r"apt-get install chromium, or set CHROMIUM=PATH"),
        chromium(),
    ):
        pass


def test_no_script_opens_it_by_itself():
    for path in SCRIPTS.glob("*.py"):
        if path.name != "chromium.py":
            text = path.read_text(encoding="utf-8")
            assert "executable_path" not in text, path
            assert 'which("chromium")' not in text, path
