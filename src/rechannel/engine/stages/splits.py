"""Assign splits to the tasks of a source stage. Pure."""

from __future__ import annotations

from collections.abc import Sequence

from rechannel.sources.reader import Split


def assign(layout: Sequence[Split], tasks: int) -> list[list[Split]]:
    """Assign neighbouring splits to tasks, about equal in size.

    Returns at most `tasks` lists, none of them empty; without splits, one empty list.
    """
    sizes = [float(split.get("size", 1)) for split in layout]
    total, passed = sum(sizes), 0.0
    out: list[list[Split]] = [[] for _ in range(max(1, min(tasks, len(layout))))]
    for split, size in zip(layout, sizes, strict=True):
        middle = (passed + size / 2) / total if total else 0.0
        out[min(len(out) - 1, int(middle * len(out)))].append(split)
        passed += size
    return [splits for splits in out if splits] or [[]]
