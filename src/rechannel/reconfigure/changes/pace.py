"""Changes of how timesteps are made: how often, how many at once, how large, and what is combined. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Annotated

from msgspec import Meta

from rechannel.errors import RefusedError
from rechannel.model.configuration import Combine, Configuration
from rechannel.reconfigure.changes.change import Change, Cli
from rechannel.reconfigure.changes.operators import Operator, operator_of, with_fields
from rechannel.reconfigure.changes.registry import in_python, registered
from rechannel.reconfigure.notation import bound, whole_milliseconds
from rechannel.reconfigure.stream_facts import StreamFacts

__all__ = ["combine", "set_bound", "set_in_flight", "set_interval"]


@registered
@dataclass(frozen=True, slots=True)
class SetCombine(Change):
    """Set whether rows are pre-aggregated before the exchange to an operator."""

    kind = "combine"

    operator: Operator
    mode: Annotated[
        Combine,
        Meta(description="on, off, or auto (by the measured reduction)."),
        Cli(argument=True),
    ]

    def resolved(self, configuration: Configuration, facts: StreamFacts) -> Configuration:
        """The operator with this mode."""
        operator_of(configuration, self.operator)
        if self.operator not in facts.combinable:
            msg = (
                f"operator {self.operator!r} cannot pre-aggregate what it receives; operators that can:"
                f" {sorted(facts.combinable)}"
            )
            raise RefusedError(msg)
        return with_fields(configuration, self.operator, combine=self.mode)


@registered
@dataclass(frozen=True, slots=True)
class SetInterval(Change):
    """Set the distance between timestep starts."""

    kind = "set_interval"

    interval_ms: Annotated[
        int,
        Meta(ge=0, le=86_400_000, description="Milliseconds; 0 = as soon as possible."),
        Cli(
            argument=True,
            metavar="TIME",
            help="Such as 500ms or 2s; 0 = as soon as possible.",
            read=whole_milliseconds,
        ),
    ]

    def resolved(self, configuration: Configuration, facts: StreamFacts) -> Configuration:
        """The Configuration with this interval."""
        del facts
        return replace(configuration, interval_ms=self.interval_ms)


@registered
@dataclass(frozen=True, slots=True)
class SetInFlight(Change):
    """Set how many timesteps may be in flight at once."""

    kind = "set_in_flight"

    timesteps: Annotated[
        int, Meta(ge=1, le=64, description="Number of timesteps."), Cli(argument=True, metavar="N")
    ]

    def resolved(self, configuration: Configuration, facts: StreamFacts) -> Configuration:
        """The Configuration with that many."""
        del facts
        return replace(configuration, in_flight=self.timesteps)


@registered
@dataclass(frozen=True, slots=True)
class SetBound(Change):
    """Bound how much a timestep reads of a source."""

    kind = "set_bound"

    source: Annotated[
        str,
        Meta(min_length=1, max_length=200, description="Name of the source."),
        Cli(argument=True),
    ]
    most: Annotated[
        Annotated[int, Meta(ge=1)] | None,
        Meta(description="Rows (files, for a source of files); none = the source's own bound."),
        Cli(argument=True, read=bound),
    ]
    bytes: Annotated[
        Annotated[int, Meta(ge=1)] | None,
        Meta(
            description="About this many bytes of rows in memory; none = its share of `Settings.timestep_bytes`."
        ),
        Cli(metavar="N"),
    ] = None

    def resolved(self, configuration: Configuration, facts: StreamFacts) -> Configuration:
        """The Configuration with these bounds of the source."""
        if self.source not in facts.sources:
            msg = f"there is no source {self.source!r}; there are {sorted(facts.sources)}"
            raise RefusedError(msg)
        return replace(
            configuration,
            bounds=_bounded(configuration.bounds, self.source, self.most),
            byte_bounds=_bounded(configuration.byte_bounds, self.source, self.bytes),
        )


def _bounded(bounds: Mapping[str, int], source: str, most: int | None) -> dict[str, int]:
    others = {name: held for name, held in bounds.items() if name != source}
    return others if most is None else {**others, source: most}


set_interval = SetInterval
set_in_flight = SetInFlight
set_bound = SetBound


@in_python
def combine(operator: str, mode: Combine | str) -> SetCombine:
    """Set whether rows are pre-aggregated before the exchange to an operator: "on", "off" or "auto"."""
    return SetCombine(operator, mode)  # type: ignore[arg-type]
