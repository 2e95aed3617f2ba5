"""Which task of a front reads which splits. Pure."""

from __future__ import annotations

from collections.abc import Sequence

from rechannel.sources.reader import Split


def assign(layout: Sequence[Split], tasks: int) -> list[list[Split]]:
    """Neighbouring splits to one task each, about equal in size. At most `tasks` lists, none empty (but for
    no splits: one)."""
    sizes = [float(split.get("size", 1)) for split in layout]
    total, passed = sum(sizes), 0.0
    out: list[list[Split]] = [[] for _ in range(max(1, min(tasks, len(layout))))]
    for split, size in zip(layout, sizes, strict=True):
        middle = (passed + size / 2) / total if total else 0.0
        out[min(len(out) - 1, int(middle * len(out)))].append(split)
        passed += size
    return [splits for splits in out if splits] or [[]]
