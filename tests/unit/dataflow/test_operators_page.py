"""The examples of docs/operators.md build."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from rechannel.dataflow.checks.check import check
from rechannel.dataflow.pictures.text import draw_text
from rechannel.dataflow.streams.stream import Stream, dataflow_of

PAGE = Path(__file__).parents[3] / "docs" / "operators.md"


def test_the_examples_build_and_the_picture_is_the_one_shown() -> None:
    text = PAGE.read_text(encoding="utf-8")
    blocks = re.findall(r"```python\n(.*?)```", text, re.DOTALL)
    shown = re.findall(r"```text\n(.*?)```", text, re.DOTALL)
    names: dict[str, Any] = {}

    for block in blocks:
        exec(compile(block, str(PAGE), "exec"), names)

    streams = [value for value in names.values() if isinstance(value, Stream)]
    operators = [stream.write.noop() for stream in streams if stream.schema is not None]
    check(dataflow_of(*operators))
    assert len(streams) == 18
    assert shown == [draw_text(dataflow_of(names["flow"])) + "\n"]
