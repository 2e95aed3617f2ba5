"""The example of docs/sources-and-sinks.md builds, and its names are those of the code."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from rechannel.dataflow.checks.check import check
from rechannel.dataflow.streams.stream import dataflow_of
from rechannel.sinks.files import STAGING, published_name
from rechannel.sources.input_files.seen import PAGE_FILES, SeenLog

PAGE = Path(__file__).parents[3] / "docs" / "sources-and-sinks.md"


def test_the_example_builds():
    names: dict[str, Any] = {}
    for block in re.findall(r"```python\n(.*?)```", PAGE.read_text("utf-8"), re.DOTALL):
        exec(compile(block, str(PAGE), "exec"), names)
    check(dataflow_of(*names["flows"]))


def test_what_the_page_says_is_what_the_code_does():
    text = PAGE.read_text("utf-8")
    assert f"/{published_name(42)}/" in text
    assert f"/{STAGING}/" in text
    assert f"{PAGE_FILES:,} files" in text
    assert all(f'"{key}"' in text for key in SeenLog.start())
