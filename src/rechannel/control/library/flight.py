"""What Autopilot remembers, and what becomes of a change that it tries: a table of states. Pure.

    watching     nothing is tried
    trying       a change was requested, and is not judged
    taking back  it did not help, and the change that takes it back was requested

A change is judged by `window` timesteps before and after it. The time that a timestep would take with as many rows as
afterwards is compared with what it takes: the share that does not depend on rows is the profile's. If it does not seem
to have helped, but each row now costs tasks far more time than before, something else has happened meanwhile (a machine
became slow, for example): then it is not judged. What was tried and did not help is barred for a time, twice as long
each time in a row.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import Literal, TypeAlias

from rechannel.control.library.attempt import Attempt
from rechannel.control.library.judging import Figures
from rechannel.control.library.remedies import MOST_GROWTH, Proposal
from rechannel.control.library.scaled import Scaling
from rechannel.scaling.decided import Decided

State: TypeAlias = Literal["watching", "trying", "taking back"]
Event: TypeAlias = Literal["proposed", "early", "helped", "useless", "stuck", "unclear", "ended"]

TABLE: Mapping[tuple[State, Event], State] = MappingProxyType(
    {
        ("watching", "proposed"): "trying",
        ("trying", "early"): "trying",
        ("trying", "helped"): "watching",
        ("trying", "useless"): "taking back",
        ("trying", "stuck"): "watching",
        ("trying", "unclear"): "watching",
        ("taking back", "early"): "taking back",
        ("taking back", "ended"): "watching",
    }
)
"""useless: it saves too little, and there is a way back; stuck: too little, and there is none, or the change was not
carried out; unclear: it cannot be judged, since something else has changed."""

COSTLIER = 1.5
"""Times as long as before that tasks take for a row, from which on a change is not blamed."""

BARS = ("useless", "stuck", "unclear")
"""What bars a remedy."""
MOST_BARS = 32
MOST_DOUBLINGS = 6
MOST_LOAD = 4.0
"""Times as many or as few rows per timestep from which on two windows are not compared; where a longer interval is
judged, as many times more as it may be longer."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Bar:
    """A remedy that is not tried for a time."""

    until_ms: int
    """Unix milliseconds."""
    lasts_ms: int = 0
    times: int = 1
    """How often in a row it did not help."""
    gain: float | None = None
    """Of a cause that no remedy was found for: what mending it would have saved. None = of a remedy."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Tried:
    """The change that is on trial."""

    key: str
    gain: float
    """Expected, as a share of a timestep."""
    against: str = ""
    """What bound, see `named`."""
    fixed: float
    """Share of a timestep that does not depend on its rows."""
    per_row: bool
    """Whether time per row is compared: the change alters how many rows a timestep has."""
    attempt: Attempt
    avoid: tuple[str, ...] = ()
    """Executors that are avoided for a time if it helps."""
    row_ms: float | None = None
    """Milliseconds that tasks of what it touches took for a row; None = not known, or the change may alter that."""
    own: tuple[str, ...] = ()
    """Ids of the controller's changes before the one that takes it back."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Flying:
    """What the controller knows."""

    state: State = "watching"
    tried: Tried | None = None
    bars: Mapping[str, Bar] = field(default_factory=dict)
    slow: Mapping[str, int] = field(default_factory=dict)
    """Executors that tasks were taken from, and until when they are avoided, Unix milliseconds."""
    interval_ms: int | None = None
    """The interval before it was made longer, for when that is enough again."""
    longer_ms: int | None = None
    """What it was made; if it is another one now, another controller or a person has set it."""
    evaluated: int = 0
    """The latest timestep of the last profile that was looked at."""
    held: bool = False
    """Whether something else than scaling is the next step."""
    scaling: Scaling = field(default_factory=Scaling)
    """What AutoScale knows; its decisions are below."""
    decisions: tuple[Decided, ...] = ()

    def after(self, event: Event) -> Flying:
        """Return it in the state that the table has. Raises KeyError for an event that cannot happen."""
        state = TABLE[self.state, event]
        return replace(self, state=state, tried=self.tried if state != "watching" else None)

    def after_view(self, timestep: int, *, held: bool) -> Flying:
        """Return it after a profile was looked at. held: whether something else than scaling is the next step."""
        return replace(self, evaluated=timestep, held=held)

    def barred(self, key: str, now_ms: int) -> bool:
        """Whether a remedy is not to be tried now."""
        bar = self.bars.get(key)
        return bar is not None and now_ms < bar.until_ms

    def bar(self, key: str, now_ms: int, barred_ms: float, *, gain: float | None = None) -> Flying:
        """Return it with a remedy barred, twice as long as the last time if that has not been over for as long.

        gain: of a cause, what mending it would save.
        """
        before = self.bars.get(key)
        again = before is not None and now_ms < before.until_ms + before.lasts_ms
        times = min(before.times + 1, MOST_DOUBLINGS) if before is not None and again else 1
        lasts_ms = int(barred_ms * 2 ** (times - 1))
        made = Bar(until_ms=now_ms + lasts_ms, lasts_ms=lasts_ms, times=times, gain=gain)
        others = {name: each for name, each in self.bars.items() if name != key}
        return replace(self, bars=dict([*others.items(), (key, made)][-MOST_BARS:]))

    def freed(self, *keys: str) -> Flying:
        """Return it with a remedy that has helped, and with what it has helped against."""
        bars = {name: each for name, each in self.bars.items() if name not in keys}
        return replace(self, bars=bars)

    def told(self, made: Decided) -> Flying:
        """Return it with one more decision."""
        known = replace(self.scaling, decisions=self.decisions).with_decision(made)
        return replace(self, decisions=known.decisions)

    def became(self, text: str) -> Flying:
        """Return it with what became of the last change that was decided on."""
        known = replace(self.scaling, decisions=self.decisions).with_result(text)
        return replace(self, decisions=known.decisions)


def decided(proposal: Proposal, timestep: int, now_ms: int, shares: Mapping[str, float]) -> Decided:
    """Return a proposal that is requested, as a decision. shares: of the critical path, by cause."""
    return Decided(
        timestep=timestep,
        at_ms=now_ms,
        outcome="changed",
        why=proposal.why,
        changes=(str(proposal.change),),
        evidence={
            "critical": {name: round(share, 4) for name, share in shares.items()},
            "remedy": proposal.remedy,
            "saves": round(proposal.gain, 4),
        },
    )


def costlier(tried: Tried, row_ms: float | None) -> float | None:
    """Return how many times as long as before a row takes, if that is so much that the change is not to blame."""
    if not tried.row_ms or row_ms is None:
        return None
    times = row_ms / tried.row_ms
    return times if times >= COSTLIER else None


def saved_share(tried: Tried, before: Figures | None, after: Figures | None) -> float | None:
    """Return the share of a timestep that was saved; None if the two windows cannot be compared."""
    if before is None or after is None or not (before.latency_ms and before.rows and after.rows):
        return None
    load, most = after.rows / before.rows, MOST_LOAD * (MOST_GROWTH if tried.per_row else 1.0)
    if not 1 / MOST_LOAD <= load <= most:
        return None
    if tried.per_row:
        return 1 - after.latency_ms / load / before.latency_ms
    expected = before.latency_ms * (tried.fixed + (1 - tried.fixed) * load)
    return 1 - after.latency_ms / expected
