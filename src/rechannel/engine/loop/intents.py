"""What was decided of a timestep, as the journal has it, and back."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from rechannel.control.events import Completed
from rechannel.engine.journal.entries import Committed, Intent, SourceRange
from rechannel.engine.journal.incarnations import SOURCES, incarnation
from rechannel.engine.loop.core.state import InFlight
from rechannel.engine.stages.runner import SourceSlice, Timestep
from rechannel.model.bad_rows import Counted
from rechannel.model.codec import Json
from rechannel.model.configuration import Configuration
from rechannel.reconfigure.events import Stepped


def intent_of(
    timestep: Timestep,
    steps: tuple[Stepped, ...],
    known: Sequence[tuple[int, Configuration]],
    notes: Mapping[str, Json],
) -> Intent:
    """The entry of a timestep. known: the journal's Configurations; a new one is written with it. notes: its notes."""
    version = timestep.configuration.version
    changed = not known or known[-1][1].version != version
    return Intent(
        timestep=timestep.number,
        sources={
            name: SourceRange(
                start=part.start,
                end=part.end,
                layout=list(part.layout),
                incarnation=incarnation(notes, SOURCES, name),
            )
            for name, part in timestep.slices.items()
        },
        configuration_version=version,
        configuration=timestep.configuration if changed else None,
        stream_ms=timestep.stream_ms,
        steps=steps,
        controls=tuple(message.operation for message in timestep.controls),
    )


def decided_of(intent: Intent, configuration: Configuration) -> Timestep:
    """Return the timestep of an intent, to run it again."""
    slices = {
        name: SourceSlice(start=part.start, end=part.end, layout=tuple(part.layout or ()))
        for name, part in intent.sources.items()
    }
    return Timestep(
        number=intent.timestep,
        stream_ms=intent.stream_ms,
        configuration=configuration,
        slices=slices,
    )


def reads_mine(intent: Intent, notes: Mapping[str, Json], source: str) -> bool:
    """Whether an entry's offsets of a source are those of who bears the name now."""
    return intent.sources[source].incarnation in {"", incarnation(notes, SOURCES, source)}


def committed_of(
    flight: InFlight,
    kept: Mapping[str, Sequence[str]],
    staged: Mapping[str, Mapping[str, Any]],
    controls: tuple[Completed, ...] = (),
    bad_rows: Mapping[str, Counted] | None = None,
) -> Committed:
    """The entry that commits a timestep: its offsets, its state and its output together."""
    timestep = flight.timestep
    return Committed(
        timestep=timestep.number,
        edits=flight.edits,
        times=flight.times,
        offsets={name: part.end for name, part in timestep.slices.items()},
        staged=staged,
        outbox={node: tuple(keys) for node, keys in kept.items()},
        controls=controls,
        bad_rows={} if bad_rows is None else bad_rows,
    )
