"""What was decided of a timestep, as the journal has it, and back."""

from __future__ import annotations

from collections.abc import Sequence

from rechannel.engine.entries import Intent, SourceRange
from rechannel.engine.runner import SourceSlice, Timestep
from rechannel.model.configuration import Configuration
from rechannel.reconfigure.events import Stepped


def intent_of(
    decided: Timestep, steps: tuple[Stepped, ...], known: Sequence[tuple[int, Configuration]]
) -> Intent:
    """The entry of a timestep. known: the journal's Configurations; a new one is written with it."""
    version = decided.configuration.version
    changed = not known or known[-1][1].version != version
    return Intent(
        timestep=decided.number,
        sources={
            name: SourceRange(start=part.start, end=part.end, layout=list(part.layout))
            for name, part in decided.slices.items()
        },
        configuration_version=version,
        configuration=decided.configuration if changed else None,
        now_ms=decided.now_ms,
        steps=steps,
    )


def decided_of(intent: Intent, configuration: Configuration) -> Timestep:
    """The timestep that an entry tells of, to run it again."""
    slices = {
        name: SourceSlice(start=part.start, end=part.end, layout=tuple(part.layout or ()))
        for name, part in intent.sources.items()
    }
    return Timestep(
        number=intent.timestep,
        now_ms=intent.now_ms,
        configuration=configuration,
        slices=slices,
    )
