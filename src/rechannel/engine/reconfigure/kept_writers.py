"""Which writers stay open when another version of the dataflow takes over, and which are opened."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from rechannel.engine.program.physical import PhysicalPlan, SinkPlan
from rechannel.sinks.outlets import same_outlet
from rechannel.sinks.spare import main_of
from rechannel.sinks.writer import SinkWriter

OpenWriter = Callable[[SinkPlan, SinkWriter | None], SinkWriter]
"""Opens what writes a sink. The second argument: what writes its outlet already, so that only the rest is opened."""


def writers_of(
    plan: PhysicalPlan,
    before: PhysicalPlan | None,
    there: Mapping[str, SinkWriter],
    opened: OpenWriter,
) -> dict[str, SinkWriter]:
    """A writer for every sink. before, there: the version that runs, and its writers.

    A sink that stays as it is keeps its writer; one that has another `on_failure` keeps what writes its outlet, but not
    its dead letters.
    """
    old = {} if before is None else {each.sink.name: each.sink for each in before.sinks}
    made: dict[str, SinkWriter] = {}
    for sink in plan.sinks:
        name, was = sink.sink.name, old.get(sink.sink.name)
        if was is None or not same_outlet(was.outlet, sink.sink.outlet):
            made[name] = opened(sink, None)
        elif was.failure == sink.sink.failure:
            made[name] = there[name]
        else:
            made[name] = opened(sink, main_of(there[name]))
    return made
