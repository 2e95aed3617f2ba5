"""The rows of a timeline as a tree: hosts, executors, cores; or operators and their tasks.

A name such as `executor 3 core 2` or `totals task 1` says what it is a part of. If there are many rows at the top and
no hosts are known, consecutive rows are put together, so that a thousand workers fit on a page.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby

from rechannel.profiling.model.findings import DRIVERS

MANY = 48
"""More rows than this at the top are put together."""
TOGETHER = 25
"""How many."""
LONGEST = 200
"""Characters of a name."""
_PART = re.compile(r"(.+) (?:core|task|thread) \d+(?: \(\d+\))?")


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """A row of the timeline."""

    name: str
    parent: int = -1
    """The row that it is a part of; -1 at the top. A row comes after its parent."""
    worker: int = -1
    """The worker whose row it is; -1 if it has parts."""


def rows_of(
    workers: Sequence[str], hosts: Mapping[str, str], chosen: Sequence[int] | None = None
) -> list[Row]:
    """Return the rows of workers.

    workers: names. hosts: of workers, or of what they are parts of, by name. chosen: the workers that have a row, in
    order; all by default.
    """
    places = range(len(workers)) if chosen is None else chosen
    leaves: dict[str, list[int]] = {}
    for place in places:
        leaves.setdefault(part_of(workers[place]), []).append(place)
    above = _above(leaves, hosts)
    rows: list[Row] = []
    for name, groups in groupby(leaves, key=above.get):
        top = -1
        if name is not None:
            rows.append(Row(name=name))
            top = len(rows) - 1
        for group in groups:
            parent = top
            if len(leaves[group]) > 1:
                rows.append(Row(name=cut(group), parent=top))
                parent = len(rows) - 1
            rows += (
                Row(name=cut(workers[place]), parent=parent, worker=place)
                for place in leaves[group]
            )
    return rows


def part_of(worker: str) -> str:
    """Return what a worker is a part of: its executor or operator; itself if its name does not say."""
    found = _PART.fullmatch(worker)
    return found[1] if found else worker


def _above(leaves: dict[str, list[int]], hosts: Mapping[str, str]) -> dict[str, str]:
    """Return what stands above groups, and sort them by it."""
    machines = {group: hosts[group] for group in leaves if hosts.get(group)}
    if 1 < len(set(machines.values())) < len(machines):
        first = {host: i for i, host in reversed(list(enumerate(machines.values())))}
        order = sorted(leaves, key=lambda group: first.get(machines.get(group, ""), -1))
        _sort(leaves, order)
        return {group: f"host {cut(host)}" for group, host in machines.items()}
    if len(leaves) <= MANY:
        return {}
    names = list(leaves)
    alone = [name for name in names if name in DRIVERS]
    rest = [name for name in names if name not in alone]
    _sort(leaves, alone + rest)
    above: dict[str, str] = {}
    for first_ in range(0, len(rest), TOGETHER):
        block = rest[first_ : first_ + TOGETHER]
        above |= dict.fromkeys(block, f"{cut(block[0])} to {cut(block[-1])}")
    return above


def _sort(leaves: dict[str, list[int]], order: Sequence[str]) -> None:
    for name in order:
        leaves[name] = leaves.pop(name)


def cut(name: str) -> str:
    """Return a name of at most `LONGEST` characters."""
    return name if len(name) <= LONGEST else f"{name[: LONGEST - 1]}…"
