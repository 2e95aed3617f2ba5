"""Event logs without traces of the machine on which they were written: pure functions of lines."""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

_LEFT = r"/(tmp|root|home|work|Users)\b[^\"]*"
_ENVIRONMENT = "SparkListenerEnvironmentUpdate"


@dataclass(frozen=True, slots=True, kw_only=True)
class Scrubber:
    """What is replaced, and what must not be left."""

    paths: Mapping[str, str]
    """Directories to what is written in their place."""
    host: str
    """Name of the machine."""
    settings: Collection[str]
    """Properties of Spark that stay."""
    left_out: Collection[str] = ()
    """Fields of an event or its task that a small log does without."""

    def lines(self, lines: Iterable[bytes]) -> Iterator[bytes]:
        """Yield each line as JSON without spaces. Raises ValueError where a trace is left."""
        ordered = sorted(self.paths.items(), key=lambda pair: -len(pair[0]))
        left = re.compile(_LEFT + (rf"|\b{re.escape(self.host)}\b" if self.host else ""))
        for line in lines:
            event = self.event(json.loads(line))
            text = json.dumps(event, separators=(",", ":"), ensure_ascii=False)
            for old, new in ordered:
                text = text.replace(old, new)
            text = re.sub(r"/tmp/[\w./-]+", "/data/scratch", text)
            if found := left.search(text):
                msg = f"{found[0]!r} is left in {text[:200]!r}"
                raise ValueError(msg)
            yield text.encode() + b"\n"

    def event(self, event: dict[str, Any]) -> dict[str, Any]:
        """An event without what describes the machine or its user."""
        if event.get("Event") == _ENVIRONMENT:
            known = event.get("Spark Properties", {})
            kept = {name: known[name] for name in sorted(known) if name in self.settings}
            return {"Event": _ENVIRONMENT, "Spark Properties": kept}
        if "User" in event:
            event["User"] = "user"
        for part in (event, event.get("Task Info", {})):
            for name in self.left_out:
                part.pop(name, None)
        executor = event.get("Executor Info")
        if executor:
            executor["Log Urls"] = {}
            executor["Attributes"] = {}
        return event
