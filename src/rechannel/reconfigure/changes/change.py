"""What every change implements: a small core, and what only some of them have. Pure.

The three primitives are Trisk's (SoCC'21, section 3): assign logic, assign workload, assign resources. The other
changes are named after what a user wants, and set the same fields of the Configuration.

    primitive            named after what a user wants
    assign_workload      rescale, rebalance, move, split, merge, rewrite, spread, gather
    assign_logic         change_logic, add, remove, change_dataflow
    assign_resources     place, executors
    (plan choices)       set_interval, set_in_flight, set_bound, combine
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from rechannel.model.configuration import Configuration
from rechannel.reconfigure.checked import Checked
from rechannel.reconfigure.stream_facts import StreamFacts

JOB = "*job"
"""What a change touches that belongs to no operator: the interval, bounds, executors."""

PROGRAM = "*program"
"""What a change of the dataflow touches: everything."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Cli:
    """How a field is written on the command line. Without one it is an option of the field's name and type."""

    argument: bool = False
    """Positional, instead of an option."""

    flag: str | None = None
    """The option, if it is not `--field-name`."""

    metavar: str | None = None
    """Placeholder in the help, if it is not the field's name."""

    help: str | None = None
    """What to write, if it differs from what the field holds."""

    read: Callable[[Any], Any] | None = None
    """Makes the value from the text; None = the type does."""

    many: bool = False
    """The option may be repeated; `read` gets the list of texts."""


class Change(Checked, ABC):
    """A change as a value. Implementations are frozen dataclasses with slots."""

    __slots__ = ()

    requestable: ClassVar[bool] = True
    """Whether it can be requested over HTTP and on the command line."""

    switches_program: ClassVar[bool] = False
    """Whether it makes another version of the dataflow. A plan of such a change cannot be replayed."""

    # The core ------------------------------------------------------------------------------------------------

    def touches(self) -> frozenset[str]:
        """Operators (or JOB, PROGRAM) whose configuration it sets."""
        return frozenset({getattr(self, "operator", None) or JOB})

    @abstractmethod
    def resolved(self, configuration: Configuration, facts: StreamFacts) -> Configuration:
        """The Configuration after the change.

        Raises UnknownOperatorError or RefusedError that name the operator, the reason, and what would be accepted.
        """

    # What only some changes have -------------------------------------------------------------------------------

    def about(self) -> frozenset[str]:
        """Operators that it concerns, also where it touches the whole program."""
        return self.touches()

    def advice(
        self, before: Configuration, after: Configuration, facts: StreamFacts
    ) -> tuple[str, ...]:
        """What the change cannot achieve, and what would, in sentences."""
        del before, after, facts
        return ()

    def pinned(self, after: Configuration, facts: StreamFacts) -> Change:
        """A change that leads to `after` whatever is measured later, for plans that are replayed."""
        del after, facts
        return self

    def spelled_out(self, operators: Iterable[str]) -> Sequence[Change]:
        """One change per operator, where this one means all of them."""
        del operators
        return (self,)

    @property
    def rewrites(self) -> str | None:
        """The operator whose state it writes anew in place."""
        return None

    @property
    def executors_needed(self) -> int | None:
        """How many executors must be there before it begins; when it is done, the job releases those above that."""
        return None

    @property
    def program_version(self) -> int | None:
        """Version of the dataflow that it begins, which the engine has opened beforehand."""
        return None

    @property
    def requires_preparation(self) -> bool:
        """Whether it is prepared even under a strategy that prepares nothing.

        Executors come only if they are requested, and a migration that fails has to fail before the change begins.
        """
        return self.executors_needed is not None or self.program_version is not None

    @property
    def names_executor(self) -> bool:
        """Whether it names an executor, which means something in one Spark application only."""
        return False

    @property
    def imports(self) -> tuple[str, ...]:
        """Import paths of the functions that it names."""
        return ()
