"""What small limits of timesteps and tasks do: whether they did anything has to be seen."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Any

import pytest

from rechannel.kernels.shuffle.spool import Spool
from rechannel.kernels.tasks import stateful_task
from rechannel.sources import memory


def count_what_small_limits_do(patch: pytest.MonkeyPatch, happened: Counter[str]) -> None:
    """Count timesteps that are cut by bytes, tasks that go in parts, and buffers that go to disk."""
    # Names that these modules import, patched where they are used.
    parts_of: Any = vars(stateful_task)["parts_of"]
    cut: Any = vars(memory)["cut"]
    write = Spool.write

    def counting_parts(*given: Any, **named: Any) -> Iterator[Any]:
        for number, part in enumerate(parts_of(*given, **named)):
            happened["in parts"] += number == 1
            yield part

    def counting_write(self: Spool, data: Any) -> Any:
        happened["spilled"] += 1
        return write(self, data)

    def counting_cut(units: Any, most: int | None) -> Any:
        sizes = list(units)
        taken = cut(sizes, most)
        happened["cut by bytes"] += taken[0] < len(sizes)
        return taken

    patch.setattr(stateful_task, "parts_of", counting_parts)
    patch.setattr(Spool, "write", counting_write)
    patch.setattr(memory, "cut", counting_cut)
