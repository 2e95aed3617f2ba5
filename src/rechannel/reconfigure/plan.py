"""What a change would do, as a value that can be saved, shown and replayed. Making one changes nothing."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import dataclass
from html import escape
from pathlib import Path
from typing import Annotated, Any

from rechannel.errors import RefusedError
from rechannel.model.codec import ABSENT, decode, encode, written
from rechannel.model.configuration import Configuration
from rechannel.model.text import in_bytes
from rechannel.reconfigure.changes.change import Change
from rechannel.reconfigure.changes.together import pinned, spelled_out
from rechannel.reconfigure.coordination import Coordination, Now
from rechannel.reconfigure.planfile import checked_way
from rechannel.reconfigure.requests import projection, route_to
from rechannel.reconfigure.steps import Step, rewritten
from rechannel.reconfigure.strategies import Strategy, steps_of
from rechannel.reconfigure.topology.meta import MetaTopology
from rechannel.reconfigure.topology.pruning import meta_topology
from rechannel.reconfigure.topology.values import Channels

LEAST_MS = 0.05
"""Costs below are not given in figures."""

MOST_NUMBERS = 32
"""Tasks of an operator that are numbered one by one."""

FORMAT = 2
"""Version of the format of plan files. Readers refuse later ones. Format 1 has no topology."""

NO_CHANNELS = Channels()
"""Those of a dataflow that is not known."""


@dataclass(frozen=True, kw_only=True)
class Affected:
    """What happens to one operator."""

    operator: str

    tasks: tuple[int, ...]
    """Tasks that give or get bins."""

    bins: int
    """How many bins move."""

    size: Annotated[float, written("bytes", encode=round)]
    """Bytes of state that move with them."""

    placed: Annotated[tuple[int, ...], ABSENT] = ()
    """Tasks that are placed on another executor than they run on."""

    carried: Annotated[float | None, written("carried_bytes", encode=round, absent=True)] = None
    """Bytes of state of these tasks; None if there are none."""


@dataclass(frozen=True, kw_only=True)
class Plan:
    """What a change would do."""

    change: Change
    strategy: Strategy

    steps: tuple[Step, ...]
    """What changes at each timestep boundary."""

    affected: tuple[Affected, ...]
    """What happens to each operator."""

    timesteps: int
    """From the first step to the last, gaps included."""

    cost_ms: Annotated[float, written(encode=lambda ms: round(ms, 3))]
    """What the most expensive step is expected to add to its timestep, at the measured cost of a moved byte."""

    advice: tuple[str, ...] = ()
    """What the change cannot achieve, and what would, in sentences."""

    topology: Annotated[MetaTopology | None, ABSENT] = None
    """Which tasks are affected, and who sends state to whom; None in a plan of format 1."""

    @property
    def bins(self) -> int:
        """How many bins move."""
        return sum(one.bins for one in self.affected)

    @property
    def size(self) -> float:
        """How many bytes of state move to another task."""
        return sum(one.size for one in self.affected)

    def to_json(self) -> dict[str, Any]:
        """Plain JSON values."""
        return {"format": 1 if self.topology is None else FORMAT, **encode(self)}

    @classmethod
    def from_json(cls, data: Any) -> Plan:
        """Invert `to_json`. Raises RefusedError naming what is wrong."""
        if not isinstance(data, Mapping) or not {"change", "strategy"} <= data.keys():
            msg = (
                "not a valid plan: change and strategy are missing; write one with plan.save(path)"
            )
            raise RefusedError(msg)
        if isinstance(data.get("format"), int) and data["format"] > FORMAT:
            msg = f"the plan has format {data['format']}; this version reads up to {FORMAT}"
            raise RefusedError(msg)
        checked_way({k: v for k, v in data.items() if k not in {"change", "strategy"}})
        return decode(cls, {"affected": (), **data})

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write it to a file, as JSON."""
        Path(path).write_text(json.dumps(self.to_json(), indent=1), encoding="utf-8")

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Plan:
        """Read it from a file. Raises RefusedError."""
        try:
            data = json.loads(Path(path).read_text(encoding="utf-8"))
        except (OSError, ValueError, RecursionError) as error:
            raise RefusedError(f"plan file {os.fspath(path)!r} cannot be read: {error}") from error
        return cls.from_json(data)

    def svg(self) -> str:
        """A picture of the tasks before and after the change, as the text of an SVG file. Raises RefusedError."""
        if self.topology is None:
            msg = "the plan was saved by an earlier version, without its topology; plan again"
            raise RefusedError(msg)
        return self.topology.svg()

    @property
    def _cost(self) -> str:
        """What each timestep takes longer, in words; no figure below the usual variation."""
        if self.cost_ms < LEAST_MS:
            return "each of them longer by less than can be measured"
        return f"at most {self.cost_ms:.1f} ms more each"

    def __repr__(self) -> str:
        return f"<Plan: {str(self).splitlines()[0]}, {len(self.steps)} steps, {self.bins} bins>"

    def _repr_html_(self) -> str:
        return f"<pre>{escape(str(self))}</pre>"

    def __str__(self) -> str:
        """A few lines for people."""
        lines = [f"{self.change} by {self.strategy}"]
        lines += [
            f"  {a.operator}: {a.bins} bins ({in_bytes(a.size)}) move among {_few(a.tasks)}"
            for a in self.affected
            if a.bins
        ]
        lines += [
            f"  {a.operator}: {_few(a.placed)} go to another executor with {in_bytes(a.carried or 0.0)}"
            for a in self.affected
            if a.placed
        ]
        still = [a.operator for a in self.affected if not a.bins and not a.placed]
        lines += [f"  {operator}: no state moves" for operator in still]
        count = len(self.steps)
        lines.append(
            f"  {count} step{'s' * (count != 1)} in {self.timesteps} timestep{'s' * (self.timesteps != 1)},"
            f" {self._cost}"
        )
        if self.topology is not None and not self.topology.untouched:
            lines += [f"  {line}" for line in str(self.topology).splitlines()]
        return "\n".join((*lines, *(f"  {sentence}" for sentence in self.advice)))


def plan(
    state: Coordination,
    change: Change,
    strategy: Strategy,
    now: Now,
    ms_per_byte: float,
    channels: Channels = NO_CHANNELS,
) -> Plan:
    """What a change would do after all open changes. Raises what a request would.

    channels: of the dataflow, for the topology.
    """
    change = spelled_out(change, now.configuration.operators)
    before = projection(state, now)
    target = change.resolved(before, now.facts)
    advice = change.advice(before, target, now.facts)
    change = pinned(before, change, now.facts)
    way = route_to(target, before, change, now)
    steps = steps_of(way, strategy, now.budget(strategy))
    names = {m.operator for m in way.moves} | {
        a.operator for a in (*way.first, *way.last) if a.operator is not None
    }
    affected = tuple(
        _affected(
            target,
            now,
            operator=name,
            tasks=tuple(
                sorted({t for m in way.moves if m.operator == name for t in (m.source, m.target)})
            ),
            bins=sum(m.operator == name for m in way.moves),
            size=sum(m.size for m in way.moves if m.operator == name),
        )
        for name in sorted(names)
    )
    return Plan(
        change=change,
        strategy=strategy,
        steps=steps,
        affected=affected,
        timesteps=max(0, len(steps) + (len(steps) - 1) * strategy.gap),
        cost_ms=_most_expensive(steps, sum(one.carried or 0.0 for one in affected)) * ms_per_byte,
        advice=advice,
        topology=meta_topology(channels, before, target, way.moves),
    )


def _affected(target: Configuration, now: Now, *, operator: str, **moved: Any) -> Affected:
    """With the state that goes to another executor, if the executor of each task is known."""
    after = target.operators.get(operator)
    here = now.facts.places.get(operator, {})
    if after is None or after.routing is None:
        return Affected(operator=operator, **moved)
    placed = tuple(task for task, at in after.placement.items() if here.get(task, at) != at)
    bins = rewritten(target, operator, now.sizes) if placed else ()
    carried = sum(bin_.size for bin_ in bins if bin_.source in placed) if placed else None
    return Affected(operator=operator, placed=placed, carried=carried, **moved)


def _most_expensive(steps: tuple[Step, ...], carried: float) -> float:
    """Bytes of the most expensive step; tasks are placed with the first one."""
    return max((step.size + carried * (not i) for i, step in enumerate(steps)), default=0.0)


def _few(tasks: tuple[int, ...]) -> str:
    """Numbers of tasks, or how many there are."""
    return f"tasks {list(tasks)}" if len(tasks) <= MOST_NUMBERS else f"{len(tasks)} tasks"
