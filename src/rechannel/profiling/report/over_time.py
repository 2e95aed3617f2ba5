"""What windows consist of, by kind of activity: the critical path, beside all time that workers spent."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from rechannel.profiling.model.summaries import Profile


def kinds_over_time(found: Profile, begin: int, most: int, left_out: list[str]) -> dict[str, Any]:
    """Return JSON values: starts and ends of windows (ns from `begin`), batches, and shares by kind.

    There are at most `most` columns: if there are more windows, a column is the mean of several, which is added to
    `left_out` as a sentence. critical, profile: pairs of the number of a kind and its shares, of kinds that have any.
    """
    windows = found.windows.sort("window")
    count = len(windows)
    group = max(1, -(-count // most))
    if group > 1:
        left_out.append(f"windows are shown in groups of {group}: the mean of each group")
    number = windows["window"].to_numpy()
    start, end = windows["start"].to_numpy(), windows["end"].to_numpy()
    column = np.arange(count) // group
    length, spent = _sums(column, end - start), _sums(column, windows["ns"].to_numpy())
    sums = found.over_time("kind")
    kinds = {name: i for i, name in enumerate(found.names.kinds)}
    shares: dict[str, list[list[Any]]] = {"critical": [], "profile": []}
    for kind in sorted(sums["kind"].unique().to_list(), key=kinds.__getitem__):
        mine = sums.filter(kind=kind)
        place = np.searchsorted(number, mine["window"].to_numpy())
        path = mine["critical"].to_numpy() * (end - start)[place]
        for what, ns, whole in (
            ("critical", path, length),
            ("profile", mine["ns"].to_numpy(), spent),
        ):
            share = _sums(column[place], ns, len(whole)) / np.maximum(1, whole)
            if share.any():
                shares[what].append([kinds[kind], np.round(share, 4).tolist()])
    return {
        "start": (start[::group] - begin).tolist(),
        "end": (
            end[[*range(group - 1, count - 1, group), *([count - 1] if count else [])]] - begin
        ).tolist(),
        "batch": windows["batch"].to_list() if group == 1 else [None] * len(length),
        **shares,
    }


def _sums(
    column: npt.NDArray[Any], values: npt.NDArray[Any], least: int = 0
) -> npt.NDArray[np.float64]:
    """Return sums of values by column. least: number of columns at least."""
    return np.bincount(column, values, minlength=least).astype(np.float64)
