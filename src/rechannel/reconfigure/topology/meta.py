"""The pruned meta topology of a change: all its operators, and how it is shown."""

from __future__ import annotations

from dataclasses import dataclass

from rechannel.reconfigure.topology.picture import draw_svg
from rechannel.reconfigure.topology.values import OperatorTopology
from rechannel.reconfigure.topology.words import lines_of


@dataclass(frozen=True, slots=True, kw_only=True)
class MetaTopology:
    """The pruned graph of a change; operators in the order of the Configuration."""

    operators: tuple[OperatorTopology, ...] = ()

    def of(self, operator: str) -> OperatorTopology:
        """The vertices of an operator. Raises KeyError if there is none of that name."""
        return {one.operator: one for one in self.operators}[operator]

    @property
    def untouched(self) -> bool:
        """Whether no task of any operator is affected."""
        return all(one.untouched for one in self.operators)

    def __str__(self) -> str:
        """A few lines for people, however many tasks there are."""
        return "\n".join(lines_of(self.operators))

    def svg(self) -> str:
        """A picture, as the text of an SVG file."""
        return draw_svg(self.operators)
