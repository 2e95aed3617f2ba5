"""Which sink writers stay open when another version of the dataflow takes over, and which are opened."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from rechannel.engine.program.physical import PhysicalPlan, SinkPlan
from rechannel.sinks.marked import MarkedWriter
from rechannel.sinks.outlets import same_outlet
from rechannel.sinks.spare import main_of
from rechannel.sinks.writer import SinkWriter

OpenWriter = Callable[[SinkPlan, SinkWriter | None], SinkWriter]
"""Opens the writer of a sink. Second argument: an open writer of its outlet, which is used instead of a new one."""


def writers_of(
    plan: PhysicalPlan,
    before: PhysicalPlan | None,
    there: Mapping[str, SinkWriter],
    opened: OpenWriter,
) -> dict[str, SinkWriter]:
    """Return a writer for each sink. before, there: the running version, and its writers.

    A sink that does not change keeps its writer. A sink with another `on_failure` keeps the writer of its outlet, but
    not the writer of its dead letters.
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


def begin_new(writers: Mapping[str, SinkWriter], there: Mapping[str, SinkWriter]) -> None:
    """Have the new writers of tables look at their place, and make what is missing, before the change is accepted.

    there: the writers of the running version. Writers of files have looked when they were opened; producers of topics
    take over with their first timestep, as earlier ones of the same name may still publish. Raises as
    `SinkWriter.begin` does.
    """
    kept = [main_of(each) for each in there.values()]
    for writer in map(main_of, writers.values()):
        if isinstance(writer, MarkedWriter) and not any(writer is each for each in kept):
            writer.begin()
