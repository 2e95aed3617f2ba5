"""Which executors came in the place of others."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from rechannel.profiling.spark.application import Executor


def replacements(gone: Iterable[Executor], every: Iterable[Executor]) -> Mapping[str, Executor]:
    """Return names of executors that were removed, and what came in the place of each.

    An executor takes the place of one other: of the first that was removed before, and has no
    replacement yet.
    """
    coming = iter(sorted(every, key=lambda one: one.added))
    found: dict[str, Executor] = {}
    for each in sorted(gone, key=lambda one: one.removed):
        # What came before this removal came before all later ones, too.
        other = next((one for one in coming if one.added >= each.removed), None)
        if other is None:
            break
        found[each.name] = other
    return found
