"""A change as steps: the difference at each timestep boundary on the way from one Configuration to another. Pure.

    structure first        gather bins, cut bins at old and new starts, add tasks, set all fields that place no bins
    moves                  bins to their new tasks, in groups that the strategy makes
    structure last         join bins, spread bins, remove tasks that own no bins any more

A step is a difference, not a Configuration: it does not undo what changes meanwhile (automatic combining, a
reconfiguration of another operator).
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from functools import reduce
from types import MappingProxyType
from typing import Annotated, Any

from rechannel.model.codec import Json, decode, encode, row, written
from rechannel.model.configuration import Configuration, OperatorConfiguration
from rechannel.model.hashspace import SPACE
from rechannel.model.routing import Routing
from rechannel.model.spread import AS_TEXT, SpreadBin


@row
@dataclass(frozen=True, slots=True, kw_only=True)
class BinMove:
    """Move one bin, the hashes [lo, hi), to another task. To the same task: write its state anew, in one run."""

    operator: str

    lo: Annotated[int, AS_TEXT]
    """First hash of the bin."""

    hi: Annotated[int, AS_TEXT]
    """First hash after the bin."""

    source: int
    """The task that owns it."""

    target: int
    """The task that gets it."""

    size: Annotated[float, written(encode=round)] = 0.0
    """Estimated bytes of its state."""

    @property
    def stays(self) -> bool:
        """Whether the bin is written anew in its place."""
        return self.source == self.target


@row
@dataclass(frozen=True, slots=True, kw_only=True)
class Assign:
    """Set one field."""

    operator: str | None
    """The operator; None = a field of the Configuration itself."""

    name: str
    """The field."""

    value: Any
    """Its new value, as JSON."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """What changes at one timestep boundary, in this order: first, moves, last."""

    first: tuple[Assign, ...] = ()
    moves: tuple[BinMove, ...] = ()
    last: tuple[Assign, ...] = ()

    @property
    def size(self) -> float:
        """Bytes of state that move to another task."""
        return sum(move.size for move in self.moves)

    @property
    def programs(self) -> bool:
        """Whether it switches to another version of the dataflow."""
        return any(a.operator is None and a.name == "dataflow" for a in (*self.first, *self.last))

    def unplaced(self) -> Step:
        """The same step without the placement of tasks on executors."""
        first = tuple(assign for assign in self.first if assign.name != "placement")
        last = tuple(assign for assign in self.last if assign.name != "placement")
        return replace(self, first=first, last=last)


@dataclass(frozen=True, kw_only=True)
class Route:
    """The whole way: all that has to be set first, every single move, all that has to be set last."""

    first: tuple[Assign, ...] = ()
    moves: tuple[BinMove, ...] = ()
    last: tuple[Assign, ...] = ()

    def __bool__(self) -> bool:
        """Whether it changes anything."""
        return bool(self.first or self.moves or self.last)

    def in_groups(self, groups: Iterable[Sequence[BinMove]]) -> tuple[Step, ...]:
        """Steps with these groups of moves. Fields are set with the first and the last of them."""
        steps = [Step(moves=tuple(group)) for group in groups if group]
        if not steps:
            return (Step(first=self.first, last=self.last),) if self else ()
        steps[0] = replace(steps[0], first=self.first)
        steps[-1] = replace(steps[-1], last=self.last)
        return tuple(steps)


def rewritten(configuration: Configuration, operator: str, sizes: Sizes) -> tuple[BinMove, ...]:
    """A move for each bin of an operator from its task to itself."""
    routing = _routing(configuration.operators[operator], operator)
    spans = zip(routing.starts, (*routing.starts[1:], SPACE), routing.owners, strict=True)
    return tuple(
        BinMove(
            operator=operator,
            lo=lo,
            hi=hi,
            source=owner,
            target=owner,
            size=sizes.of(operator, lo, hi),
        )
        for lo, hi, owner in spans
    )


@dataclass(frozen=True, kw_only=True)
class Sizes:
    """Estimates of the bytes of state of a range of hashes. They assume uniform hashes within a bin."""

    bins: Mapping[str, tuple[tuple[int, ...], tuple[float, ...]]] = field(
        default_factory=lambda: MappingProxyType({})
    )
    """First hash of each bin and bytes of each bin, by operator."""

    def of(self, operator: str, lo: int, hi: int) -> float:
        """Expected bytes in [lo, hi)."""
        starts, sizes = self.bins.get(operator, ((0,), (0.0,)))
        total, number = 0.0, bisect_right(starts, lo) - 1
        while number < len(starts) and starts[number] < hi:
            begin = starts[number]
            end = starts[number + 1] if number + 1 < len(starts) else SPACE
            total += sizes[number] * (min(hi, end) - max(lo, begin)) / (end - begin)
            number += 1
        return total


def route(now: Configuration, target: Configuration, sizes: Sizes) -> Route:
    """The way from one Configuration to another."""
    first: list[Assign] = []
    last: list[Assign] = []
    moves: list[BinMove] = []
    for name in sorted(now.operators.keys() | target.operators.keys()):
        old, new = now.operators.get(name), target.operators.get(name)
        if new is not None and (old is None or (old.routing is None) != (new.routing is None)):
            first.append(Assign(operator=name, name="new", value=encode(new)))
        elif new is None:
            first.append(Assign(operator=name, name="removed", value=True))
        elif old is not None and old != new:
            before, moved, behind = _operator(name, old, new, sizes)
            first.extend(before)
            moves.extend(moved)
            last.extend(behind)
    before_of_job = job_fields(now)
    for name, value in job_fields(target).items():
        if before_of_job[name] != value:
            first.append(Assign(operator=None, name=name, value=value))
    return Route(first=tuple(first), moves=tuple(moves), last=tuple(last))


def _names(kind: type, *, but: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(one.name for one in fields(kind) if one.name not in but)


_JOB_FIELDS = _names(Configuration, but=("version", "operators"))
_OPERATOR_FIELDS = _names(OperatorConfiguration, but=("tasks", "routing"))
"""Fields that one `Assign` sets; tasks and routing need more, since bins move."""


def job_fields(configuration: Configuration) -> dict[str, Any]:
    """Return the fields of the Configuration itself, without version and operators, as plain JSON values."""
    data = encode(replace(configuration, operators={}))
    return {name: data[name] for name in _JOB_FIELDS}


def _operator(
    name: str, old: OperatorConfiguration, new: OperatorConfiguration, sizes: Sizes
) -> tuple[list[Assign], list[BinMove], list[Assign]]:
    first = [Assign(operator=name, name=field_, value=value) for field_, value in _plain(old, new)]
    moves: list[BinMove] = []
    last: list[Assign] = []
    if old.routing is not None and new.routing is not None:
        there, then = old.routing.spreads, new.routing.spreads
        stay = tuple(spread for spread in there if spread in then)
        before, after = old.routing.with_spreads(()), new.routing.with_spreads(())
        if stay != there:
            first.append(Assign(operator=name, name="spreads", value=_spreads(stay)))
        cut = before.starts
        if after.starts != cut:
            cut = tuple(sorted({*cut, *after.starts}))
        if cut != before.starts:
            first.append(Assign(operator=name, name="starts", value=[str(s) for s in cut]))
        sources, targets = before.with_starts(cut).owners, after.with_starts(cut).owners
        moves = [
            BinMove(
                operator=name,
                lo=lo,
                hi=hi,
                source=source,
                target=target,
                size=sizes.of(name, lo, hi),
            )
            for lo, hi, source, target in zip(cut, (*cut[1:], SPACE), sources, targets, strict=True)
            if source != target
        ]
        if cut != after.starts:
            last.append(Assign(operator=name, name="starts", value=[str(s) for s in after.starts]))
        if stay != then:
            last.append(Assign(operator=name, name="spreads", value=_spreads(then)))
    if new.tasks > old.tasks:
        first.insert(0, Assign(operator=name, name="tasks", value=new.tasks))
    elif new.tasks < old.tasks:
        last.append(Assign(operator=name, name="tasks", value=new.tasks))
    return first, moves, last


def _spreads(spreads: Iterable[SpreadBin]) -> Json:
    return [encode(spread) for spread in spreads]


def _plain(old: OperatorConfiguration, new: OperatorConfiguration) -> Iterator[tuple[str, Any]]:
    before, after = encode(old), encode(new)
    for name in _OPERATOR_FIELDS:
        if before[name] != after[name]:
            yield name, after[name]


def apply_step(configuration: Configuration, step: Step) -> Configuration:
    """The next version of a Configuration. Raises ValueError if the step does not fit."""
    changed = configuration
    for assign in step.first:
        changed = _assign(changed, assign)
    changed = _move(changed, step.moves)
    for assign in step.last:
        changed = _assign(changed, assign)
    return replace(changed, version=configuration.version + 1)


def apply_steps(configuration: Configuration, steps: Iterable[Step]) -> Configuration:
    """The Configuration after several steps. Raises ValueError if one does not fit."""
    return reduce(apply_step, joined(steps), configuration)


def joined(steps: Iterable[Step]) -> Iterator[Step]:
    """As few steps as possible with the same result: applying one costs as much as there are bins."""
    whole: Step | None = None
    moves: list[BinMove] = []
    for step in steps:
        if whole is not None and (whole.last or step.first):
            yield replace(whole, moves=tuple(moves))
            whole, moves = None, []
        whole = Step(first=step.first if whole is None else whole.first, last=step.last)
        moves.extend(step.moves)
    if whole is not None:
        yield replace(whole, moves=tuple(moves))


def _move(configuration: Configuration, moves: Sequence[BinMove]) -> Configuration:
    operators = dict(configuration.operators)
    moves = [move for move in moves if not move.stays]  # writing anew changes no routing
    for name in dict.fromkeys(move.operator for move in moves):
        operator = operators[name]
        routing = _routing(operator, name)
        moved: dict[int, int] = {}
        for move in moves:
            if move.operator == name:
                number = routing.bin_of(move.lo)
                here = moved.get(number, routing.owners[number])
                if routing.span(number) != (move.lo, move.hi) or here != move.source:
                    msg = (
                        f"operator {name!r} has no bin [{move.lo}, {move.hi}) at task {move.source}"
                    )
                    raise ValueError(msg)
                if not 0 <= move.target < routing.tasks:
                    msg = f"operator {name!r} has no task {move.target}"
                    raise ValueError(msg)
                moved[number] = move.target
        operators[name] = replace(operator, routing=routing.with_owners(moved))
    return replace(configuration, operators=operators)


def _assign(configuration: Configuration, assign: Assign) -> Configuration:
    if assign.operator is None:
        return replace(configuration, **{assign.name: assign.value})
    operators = dict(configuration.operators)
    if assign.name == "removed":
        del operators[assign.operator]
    elif assign.name == "new":
        operators[assign.operator] = decode(OperatorConfiguration, assign.value)
    else:
        operators[assign.operator] = _field(operators[assign.operator], assign)
    return replace(configuration, operators=operators)


def _field(operator: OperatorConfiguration, assign: Assign) -> OperatorConfiguration:
    name, value = assign.name, assign.value
    if name == "tasks":
        placement = {task: at for task, at in operator.placement.items() if task < value}
        routing = operator.routing
        routing = None if routing is None else replace(routing, tasks=value)
        return replace(operator, tasks=value, routing=routing, placement=placement)
    if name == "starts":
        routing = _routing(operator, str(assign.operator))
        return replace(operator, routing=routing.with_starts([int(start) for start in value]))
    if name == "spreads":
        spreads = [decode(SpreadBin, one) for one in value]
        routing = _routing(operator, str(assign.operator)).with_spreads(spreads)
        return replace(operator, routing=routing)
    if name == "placement":
        kept = {int(task): where for task, where in value if int(task) < operator.tasks}
        return replace(operator, placement=kept)
    if name not in _OPERATOR_FIELDS:
        msg = f"an operator has no field {name!r}"
        raise ValueError(msg)
    return decode(OperatorConfiguration, {**encode(operator), name: value})


def _routing(operator: OperatorConfiguration, name: str) -> Routing:
    if operator.routing is None:
        msg = f"operator {name!r} has no bins"
        raise ValueError(msg)
    return operator.routing
