"""Spreads a hot key of a join over several tasks, and gathers it again when it cools: Chi's skew-aware join.

One side of the join, the one on which the key is hot, is dealt out over the tasks; the other side goes to all of them.
The decision is in `spreading.py`, from the heaviest keys of the tasks (`hotkeys.py`). The tasks are asked only while a
bin is hot enough to hold such a key, or a key is spread. A wish that has been the same in `looks` looks is requested,
`cool_down` timesteps after the latest change of the operator, whatever requested it, and twice as long for each time
that others have gathered the key. What the engine would refuse (a
full outer join, a key that is hot on the side that may not be dealt out) is in the log, and is not requested.
"""

from __future__ import annotations

from rechannel.control.controller import Control, Controller, Outcome
from rechannel.control.library.hotkeys import AskHotKeys
from rechannel.control.library.records import free_since
from rechannel.control.library.spreading import (
    Known,
    Spreading,
    Wish,
    is_worth_a_look,
    looked,
)
from rechannel.control.operation import Operation, operation
from rechannel.control.triggers import every
from rechannel.errors import RefusedError
from rechannel.reconfigure.changes.change import Change
from rechannel.reconfigure.changes.spreading import gather, spread

SIDES = ("left", "right")


class SkewJoin(Controller):
    """Spreads hot keys."""

    trigger = every(timesteps=1)

    def __init__(
        self,
        *,
        operators: list[str] | None = None,
        enter: float = 1.0,
        leave: float = 0.5,
        looks: int = 3,
        cool_down: int = 8,
    ) -> None:
        """operators: names; None = all with state. enter, leave: rows of a key over those of a task in the mean.

        Raises RefusedError.
        """
        if not 0 <= leave < enter or looks < 1 or cool_down < 1:
            given = f"{enter=}, {leave=}, {looks=}, {cool_down=}"
            msg = f"SkewJoin({given}): give 0 <= leave < enter, looks and cool_down >= 1"
            raise RefusedError(msg)
        self.operators, self.enter, self.leave = operators, enter, leave
        self.looks, self.cool_down = looks, cool_down

    def on_init(self) -> Spreading:
        """Nothing is known."""
        return Spreading()

    def on_begin(self, control: Control[Spreading]) -> Operation | None:
        """Ask for the heaviest keys where one may be hot."""
        asked = [
            name
            for name, rows in control.rows_per_bin.items()
            if (self.operators is None or name in self.operators)
            and (routing := control.configuration.operators[name].routing) is not None
            and is_worth_a_look(routing, rows, self.enter)
        ]
        return operation(AskHotKeys(), operators=asked) if asked else None

    def on_complete(self, control: Control[Spreading], outcome: Outcome) -> None:
        """Note what would help each operator, and request it once it is certain."""
        then = control.configuration_at(outcome.timestep) or control.configuration
        for name, found in outcome.replies.items():
            now = control.configuration.operators.get(name)
            if now is None or now.routing is None or then.operators[name].routing != now.routing:
                continue  # the tasks have looked at what is no longer there
            known = looked(
                control.state.of(name), now.routing, found, enter=self.enter, leave=self.leave
            )
            if known.wish is not None and known.looks >= self.looks:
                known = self._granted(control, name, known, known.wish)
            control.state = control.state.after(name, known)

    def _granted(self, control: Control[Spreading], name: str, known: Known, wish: Wish) -> Known:
        """Request a wish, unless something is changing or it would be refused."""
        free = free_since(control.changes, name)
        mine = any(record.open and control.requested(record) for record in control.changes)
        if free is None or mine or control.requests:
            return known
        if control.timestep < max(free, known.acted) + known.waits(wish, self.cool_down):
            return known
        why = f"the key {wish.key} has {wish.share:.0%} of the rows"
        change = change_of(name, wish)
        if refusal := control.refusal(change):
            control.note(f"operator {name!r}: {why}, and cannot be spread: {refusal}")
            return known.refusing(wish)
        control.reconfigure(change, reason=why)
        return known.requested(wish, control.timestep)


def change_of(operator: str, wish: Wish) -> Change:
    """Return the change that a wish is about."""
    if wish.kind == "gather":
        return gather(operator, hash=wish.hash)
    side = None if wish.side is None else SIDES[wish.side]
    return spread(operator, hash=wish.hash, over=wish.over, side=side)
