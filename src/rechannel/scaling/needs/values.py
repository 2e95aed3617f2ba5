"""What a stream needs, and what its controllers decided: one value for Python, HTTP, the command line and the page."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from rechannel.model.codec import Json
from rechannel.model.facts import Facts
from rechannel.scaling.decided import Decided


@dataclass(frozen=True, slots=True, kw_only=True)
class Amount(Facts):
    """A number that a policy advises, and its interval."""

    present: int
    """What there is."""
    advised: int
    low: int
    high: int
    """Least and most, for the costs at the ends of their intervals."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CostFit(Facts):
    """What a task of an operator costs: a fixed part and a part for each row, fitted to the tasks that were seen."""

    fixed_ms: float
    row_ms: float
    flat: tuple[float, float]
    """(fixed_ms, row_ms) at the end of the interval where most is fixed."""
    steep: tuple[float, float]
    """(fixed_ms, row_ms) at the end where least is fixed."""
    samples: int
    """Points that the line was fitted to."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OperatorNeed(Facts):
    """What one operator needs, and why."""

    instances: int
    """Tasks that it has."""
    advised: int
    low: int
    high: int
    """Least and most, for the costs at the ends of their intervals."""
    target: float | None
    """Rows per second that will reach it once all operators keep up; None = not known."""
    rate: float | None
    """Rows per second of useful time of one task: the true processing rate; None = nothing was processed."""
    exact: float | None
    """Target over rate, a real number: the instances of DS2, if each had a core and nothing were fixed."""
    sentence: str
    """What was measured, and what follows from it."""
    turn_ms: float | None = None
    """What its turn in a timestep will take, with the tasks that are advised."""
    cost: CostFit | None = None
    """None where the policy fits no cost."""
    heaviest: float | None = None
    """Rows of the heaviest task over the mean."""
    heaviest_after: float | None = None
    """The same after the remedy."""
    remedy: str | None = None
    """The change that helps against skew: "rebalance", "split" or "spread"; None if none is needed."""
    points: tuple[tuple[float, float], ...] = ()
    """Some of its tasks, or where it has many, means of several: (rows, milliseconds)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WindowFigures(Facts):
    """What was measured in one window."""

    start_ms: int
    end_ms: int
    """Unix milliseconds."""
    first: int
    last: int
    """Timesteps."""
    configuration: int | None
    """Version of the Configuration; None if unknown."""
    arrived_per_s: float
    """Rows per second that arrived at all sources, read or not."""
    backlog: int
    """Rows that had arrived and were not read at its end."""
    timestep_ms: float
    """Median of its timesteps."""
    busy: float
    """Share of the core-seconds in which tasks ran."""
    tasks: Mapping[str, int]
    """By operator."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CurvePoint(Facts):
    """What a timestep takes on a number of cores, with the best tasks."""

    cores: int
    timestep_ms: float
    low_ms: float
    high_ms: float
    """For the costs at the ends of their intervals."""
    keeps: bool
    """Whether the interval is kept at the utilisation."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamNeeds(Facts):
    """What a policy says of the latest windows. Figures that it does not know are None."""

    policy: str
    why: str
    """A sentence: what was measured, and what follows from it."""
    changes: bool
    """Whether anything is to be changed."""
    timestep: int
    """The last one that was measured."""
    interval_ms: float
    in_flight: int
    """Timesteps: one may take its share of as many intervals."""
    """Between timesteps, that is to be kept."""
    utilisation: float
    """Share of it that may be used."""
    rate: float
    """Rows per second that arrive at all sources, for which the advice is."""
    backlog: int
    timestep_ms: float
    """What timesteps took, the median of the latest window."""
    predicted_ms: float | None = None
    """What they will take."""
    cores: Amount | None = None
    executors: Amount | None = None
    keeps: bool | None = None
    """Whether any number of cores keeps the interval."""
    binds: str | None = None
    """What is nearest to its bound: "timestep", "cores", or the name of an operator."""
    used: float | None = None
    """Share of that bound that will be used."""
    hangs_on: str | None = None
    """The operator whose cost matters most to the answer."""
    offset: float = 1.0
    """Measured over predicted time of timesteps, which multiplies all costs."""
    windows: tuple[WindowFigures, ...] = ()
    curve: tuple[CurvePoint, ...] = ()
    evidence: Mapping[str, Json] = field(default_factory=dict)
    """The figures of the policy, as it gave them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ControllerDecisions(Facts):
    """What a controller of the stream has decided."""

    name: str
    dry_run: bool
    """Whether it only advises."""
    decisions: tuple[Decided, ...]
    """Oldest first."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamAdvice(Facts):
    """What a stream needs now, and what its controllers have decided."""

    title: str
    """Name of the job."""
    operators: Mapping[str, OperatorNeed] = field(default_factory=dict)
    """In topological order; empty as long as nothing was measured."""
    needs: StreamNeeds | None = None
    """Of the stream as a whole; None as long as nothing was measured, which a note explains."""
    controllers: tuple[ControllerDecisions, ...] = ()
    """Those that show decisions, in the order of their installation."""
    notes: tuple[str, ...] = ()
    """What is missing, and what was assumed in its place."""
    kind: str = "stream"
    """Tells this from advice of files of other systems."""

    @property
    def parallelism(self) -> dict[str, int]:
        """The tasks that are advised, by operator."""
        return {name: each.advised for name, each in self.operators.items()}

    def __str__(self) -> str:
        """What it says in words; all figures are in the fields."""
        said = [self.needs.why] if self.needs else ["nothing was measured"]
        said += [each.sentence for each in self.operators.values()]
        said += [f"note: {note}" for note in self.notes]
        latest = [(one.name, one.decisions[-1]) for one in self.controllers if one.decisions]
        said += [f"{name}: {made.outcome}: {made.why}" for name, made in latest]
        return "\n".join([f"{self.title}: {said[0]}", *said[1:]])
