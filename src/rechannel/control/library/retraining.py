"""When a model is trained again, from the confusion matrices of its predictions. Pure.

    watching --F1 is below the bound, `patience` times in a row--> sampling --trained--> changing --it holds--> watching

Only cases of the running model count: those after the latest change, and of these the latest `window_ms`. A change is
judged as soon as it has `least` relevant cases. If it has not helped, the next one waits for a whole window.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from rechannel.control.library.quality import EARLIEST, Confusion
from rechannel.model.codec import Json

WATCHING, SAMPLING, CHANGING = "watching", "sampling", "changing"

MOST_TRIES = 3
"""How often a change is requested before its parameters are given up."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Rules:
    """When to act."""

    bound: float
    """Least F1."""
    margin: float
    """F1 is well again at `bound + margin`."""
    least: int
    """Relevant cases below which nothing is concluded."""
    patience: int
    """How many times in a row F1 has to be below the bound."""
    window_ms: int
    """Cases that count."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Updating:
    """What is known of the model."""

    phase: str = WATCHING
    changed_at: int = EARLIEST
    """Time of the latest case of the model before, Unix milliseconds."""
    latest: int = EARLIEST
    """Time of the latest case."""
    f1: float | None = None
    """Of the running model; None = too few cases yet."""
    low: int = 0
    """How many times in a row F1 was below the bound."""
    before: float | None = None
    """F1 of the model before, until the running one is judged."""
    wait_until: int = EARLIEST
    """Time of a case before which the model is not trained again."""
    updates: int = 0
    tries: int = 0
    """How often the change with the trained parameters was requested."""
    parameters: Mapping[str, Json] | None = None
    """Trained, and not yet in force."""

    def since(self, rules: Rules) -> int:
        """Cases after this time count."""
        return max(self.changed_at, self.latest - rules.window_ms)


def measured(state: Updating, found: Confusion, rules: Rules) -> tuple[Updating, str]:
    """Return the state after a measurement, and what there is to say ("" = nothing)."""
    state = replace(state, latest=max(state.latest, found.latest))
    if found.relevant < rules.least:
        return state, ""
    f1, before, note = found.f1, state.before, ""
    if before is not None:
        helped = f1 > before
        note = f"update {state.updates}: F1 {before:.2f} -> {f1:.2f}" + (
            "" if helped else ", which is no better"
        )
        wait = state.wait_until if helped else state.latest + rules.window_ms
        state = replace(state, before=None, wait_until=wait)
    low = (
        state.low + 1 if f1 < rules.bound else 0 if f1 >= rules.bound + rules.margin else state.low
    )
    begins = low >= rules.patience and f1 < rules.bound and state.latest >= state.wait_until
    return replace(state, f1=f1, low=low, phase=SAMPLING if begins else WATCHING), note


def trained(state: Updating, parameters: Mapping[str, Json]) -> Updating:
    """Return the state after training."""
    return replace(state, phase=CHANGING, parameters=parameters, tries=0)


def tried(state: Updating) -> Updating:
    """Return the state when the change is requested; once it was refused too often, the parameters are given up."""
    if state.tries >= MOST_TRIES:
        wait = replace(state, phase=WATCHING, parameters=None, tries=0, low=0)
        return replace(wait, wait_until=state.latest)
    return replace(state, tries=state.tries + 1)


def changed(state: Updating, found: Confusion) -> Updating:
    """Return the state after the change. found: cases of the model before, up to the change."""
    return Updating(
        changed_at=max(state.latest, found.latest),
        latest=max(state.latest, found.latest),
        before=state.f1,
        updates=state.updates + 1,
    )
