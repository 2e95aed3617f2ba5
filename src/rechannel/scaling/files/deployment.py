"""The file of the topology: who reads whom, and with how many instances.

Of Flink and Heron it has a line per edge, `id1,name1,instances1,id2,name2,instances2`. Timely's is a log: `timely.py`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from rechannel.errors import RefusedError, TraceError
from rechannel.scaling.files.lines import fields, read_lines, whole
from rechannel.scaling.model.topology import Topology, topology

HEADER = "id1,name1,instances1,id2,name2,instances2"


@dataclass(frozen=True, slots=True, kw_only=True)
class Deployment:
    """A dataflow as it ran. Operators are called by their ids."""

    topology: Topology
    names: Mapping[str, str]
    instances: Mapping[str, int]

    def label(self, key: str) -> str:
        """Return what an operator is called: its name, and its id if others have the same name."""
        name = self.names[key]
        alone = sum(each == name for each in self.names.values()) == 1
        return name if alone else f"{name} ({key})"


def read_topology(file: Path) -> Deployment:
    """Read the file of Flink or Heron. Raises TraceError."""
    found: dict[str, tuple[str, int]] = {}

    def operator(key: str, name: str, count: str) -> str:
        here = (name, whole(count, f"the number of instances of {key!r}", least=1))
        before = found.setdefault(key, here)
        if before != here:
            msg = f"operator {key!r} is {name!r} with {count} instances; before, {before[0]!r} with {before[1]}"
            raise ValueError(msg)
        return key

    def edge(_: Path, line: str) -> tuple[str, str]:
        cells = fields(line, HEADER)
        return operator(*cells[:3]), operator(*cells[3:])

    edges = read_lines([file], edge)
    return deployment(file, edges, found)


def deployment(
    file: Path, edges: Iterable[tuple[str, str]], found: Mapping[str, tuple[str, int]]
) -> Deployment:
    """Return what a file describes. found: name and instances by id. Raises TraceError for a cycle, or no operator."""
    try:
        graph = topology(edges, found)
    except RefusedError as error:
        msg = f"{file}: {error}"
        raise TraceError(msg) from None
    return Deployment(
        topology=graph,
        names={key: name for key, (name, _) in found.items()},
        instances={key: count for key, (_, count) in found.items()},
    )
