"""Evens out the load of tasks: moves bins, cuts those that hold too much, and reports a key that is the reason.

The decision is in `skew.py`. An operator becomes uneven above `enter` and is even again below `leave`. While it is
uneven, the controller acts `cool_down` timesteps after the latest change of the operator, whatever requested it, and
after its own latest step; twice as long each time that another controller or user has changed it since that step.

    moving bins helps   -> rebalance
    it does not         -> ask for the heaviest key -> split the heaviest bin, or report the key
"""

from __future__ import annotations

from dataclasses import replace

from rechannel.control.controller import Control, Controller, Outcome
from rechannel.control.library.heaviest import AskHeaviest, Heaviest
from rechannel.control.library.records import changed_by_others, free_since
from rechannel.control.library.skew import (
    Balancing,
    Cut,
    Watched,
    cut_of,
    is_uneven,
    remedy,
    said_of_one_key,
    skew_of,
)
from rechannel.control.operation import Operation, operation
from rechannel.control.triggers import every
from rechannel.errors import RefusedError
from rechannel.reconfigure.changes.bins import rebalance, split
from rechannel.reconfigure.changes.spreading import spread


class Balance(Controller):
    """Moves and splits bins of uneven operators."""

    trigger = every(timesteps=1)

    def __init__(
        self,
        *,
        operators: list[str] | None = None,
        enter: float = 0.3,
        leave: float = 0.1,
        cool_down: int = 8,
    ) -> None:
        """Take the tolerances. operators: names; None = all with state. Raises RefusedError."""
        if not 0 <= leave < enter or cool_down < 1:
            given = f"enter={enter}, leave={leave}, cool_down={cool_down}"
            msg = f"Balance({given}): give 0 <= leave < enter and cool_down >= 1"
            raise RefusedError(msg)
        self.operators, self.enter, self.leave = operators, enter, leave
        self.cool_down = cool_down

    def on_init(self) -> Balancing:
        """Nothing is known."""
        return Balancing()

    def on_begin(self, control: Control[Balancing]) -> Operation | None:
        """Move bins of uneven operators, and ask for the heaviest keys where that does not help."""
        looks: list[str] = []
        for name, rows in control.rows_per_bin.items():
            routing = control.configuration.operators[name].routing
            if routing is None or (self.operators is not None and name not in self.operators):
                continue
            known, skew = control.state.of(name), skew_of(routing, rows)
            uneven = is_uneven(skew, before=known.uneven, enter=self.enter, leave=self.leave)
            key, crossed = (
                known.key if uneven else "",
                changed_by_others(control, name, known.acted),
            )
            known = replace(known, uneven=uneven, key=key, crossed=crossed)
            acts = self._may_act(control, name, known)
            step = remedy(routing, rows, self.leave) if acts else "none"
            if step == "move":
                change = rebalance(name, tolerance=self.leave)
                control.reconfigure(change, reason=f"skew {skew:.2f}")
            elif step == "look":
                looks.append(name)
            if step != "none":
                known = known.acting(control.timestep)
            control.state = control.state.after(name, known)
        return operation(AskHeaviest(), operators=looks) if looks else None

    def _may_act(self, control: Control[Balancing], name: str, known: Watched) -> bool:
        free = free_since(control.changes, name)
        if free is None or not known.uneven:
            return False
        return control.timestep >= max(free, known.acted) + known.waits(self.cool_down)

    def on_complete(self, control: Control[Balancing], outcome: Outcome) -> None:
        """Split the heaviest bin of each operator that was asked, or name the key that is the reason."""
        for name, heaviest in outcome.replies.items():
            operator = control.configuration.operators.get(name)
            rows = control.rows_per_bin.get(name)
            if operator and operator.routing and rows and heaviest.rows:
                routing = operator.routing
                self._cut(control, name, cut_of(routing, rows, heaviest, self.leave), heaviest)

    def _cut(self, control: Control[Balancing], name: str, cut: Cut, heaviest: Heaviest) -> None:
        known = control.state.of(name)
        if cut.one_key and known.key != heaviest.key:
            refusal = control.refusal(spread(name, hash=heaviest.hash))
            control.note(said_of_one_key(name, heaviest, refusal))
            control.state = control.state.after(name, replace(known, key=heaviest.key))
        if cut.into > 1:
            control.reconfigure(
                split(name, cut.bin, into=cut.into), reason=f"bin {cut.bin} is too hot to move"
            )
