"""What a running job says of itself: the part of its handle that only looks."""

from __future__ import annotations

from functools import partial
from threading import Event
from typing import Any

from rechannel.assembly import Parts
from rechannel.engine.loop.driver import Driver
from rechannel.engine.program.explain import explain
from rechannel.engine.program.standing import Standing
from rechannel.errors import (
    one_sentence,
)
from rechannel.model.configuration import Configuration
from rechannel.model.text import Text
from rechannel.monitoring import (
    DataflowNode,
    Flow,
    JobStatus,
    OperatorBins,
    SinkStatus,
)
from rechannel.running.bins import bins_of
from rechannel.running.flowing import MOST_TIMESTEPS, flow_of, nodes_of
from rechannel.running.latest import Latest
from rechannel.running.live import page, watch
from rechannel.running.reconfiguration import failure
from rechannel.running.standing import lags_of, operators_of
from rechannel.telemetry.facts import TimestepProgress
from rechannel.telemetry.hub import Hub
from rechannel.telemetry.totals import Sums


class Observed:
    """The part of the handle on a running job that looks and changes nothing."""

    _parts: Parts
    _driver: Driver
    _hub: Hub
    _over: Event
    _bins: Latest[dict[str, OperatorBins]]
    _flow: Latest[Flow]

    @property
    def name(self) -> str:
        """The job's name."""
        return self._parts.name

    @property
    def is_active(self) -> bool:
        """Whether it still runs."""
        return not self._over.is_set()

    @property
    def status(self) -> JobStatus:
        """What the job is doing now."""
        error, configuration = self._driver.error, self._driver.position.configuration
        last, now_ms = self._hub.last_progress, self._hub.now_ms
        message = "stopping" if self._driver.stopping else "running"
        if not self.is_active:
            message = "stopped" if error is None else f"failed: {one_sentence(error)}"
        return JobStatus(
            name=self.name,
            active=self.is_active,
            message=message,
            timestep=self._parts.journal.state.last_committed or 0,
            configuration=configuration.version,
            retries=self._driver.position.tries,
            troubles=dict(self._hub.troubles.current),
            committed_ms=None if last is None else last.committed_ms,
            open_since_ms=self._hub.open_since_ms,
            lag=lags_of(self.sources, last, now_ms),
            operators=operators_of(configuration, last, self._hub.totals, now_ms),
            bad_rows={node: one.facts() for node, one in self._hub.totals.judged.items()},
        )

    @property
    def last_progress(self) -> TimestepProgress | None:
        """What the last committed timestep did; None before the first."""
        return self._hub.last_progress

    @property
    def recent_progress(self) -> list[TimestepProgress]:
        """What the last committed timesteps did, oldest first."""
        return self._hub.recent_progress

    @property
    def totals(self) -> Sums:
        """Sums since this driver started: rows, bytes and time by operator, durations of timesteps."""
        return self._hub.totals

    @property
    def configuration(self) -> Configuration:
        """What the next timestep runs under."""
        return self._driver.position.configuration

    @property
    def nodes(self) -> tuple[DataflowNode, ...]:
        """The nodes of the running dataflow, upstream first."""
        return nodes_of(self._parts.switch.current.program.record)

    def bins(self) -> dict[str, OperatorBins]:
        """Return, for each operator with state, which task owns each bin, what it has, and where it is to move."""
        state, now, tasks = self._parts.journal.state, self.configuration, self._hub.recent_tasks
        make = partial(
            bins_of,
            now,
            state.configurations,
            state.manifests,
            tasks,
            state.coordination.open,
        )
        newest = tasks[-1] if tasks else None
        return self._bins.of(make, now, state.manifests, state.coordination, newest)

    def flow(self) -> Flow:
        """Return what went from operator to operator in the latest timesteps, and what their critical path is made of.

        Some hundred tasks take about 20 ms; the first call compiles the count of paths, or loads it, which takes
        seconds. Without the extra `profile`, the critical path is not known.
        """
        tasks = self._hub.recent_tasks
        make = partial(flow_of, tasks, self._hub.recent_events(MOST_TIMESTEPS))
        return self._flow.of(make, tasks[-1] if tasks else None)

    @property
    def sources(self) -> tuple[str, ...]:
        """Names of its sources."""
        return tuple(self._parts.switch.current.readers)

    @property
    def sinks(self) -> dict[str, SinkStatus]:
        """By name: how many committed timesteps a sink has not published, and why."""
        standing = self._parts.publisher.standing()
        return {name: SinkStatus.from_dict(fields) for name, fields in standing.items()}

    def committed_offset(self, source: str) -> dict[str, Any]:
        """Return how far a source has been read and committed; empty before the first commit."""
        return dict(self._parts.journal.state.offsets.get(source) or {})

    @property
    def exception(self) -> BaseException | None:
        """Why it failed; None if it did not."""
        return failure(self._parts)

    def explain(self) -> Text:
        """Return the physical plan of the next timestep: stages, tasks, state, sinks, the order of its work.

        It also says where tasks run, how far sources lag, what sinks owe, and which live changes each part can take.
        """
        plan, standing = (
            self._parts.switch.current.plan,
            Standing(status=self.status, sinks=self.sinks),
        )
        on_spark = self._parts.session is not None
        inline = self._parts.choose.described(plan, self.configuration)
        return Text(
            explain(plan, self.configuration, on_spark=on_spark, standing=standing, inline=inline)
        )

    def live(self, seconds: float | None = None, *, every: float = 1.0) -> None:
        """Show the job in a notebook's cell, renewed every `every` seconds, until it ends or the cell is interrupted.

        seconds: the longest time. Raises RefusedError without IPython.
        """
        watch(lambda: page(self.status, self.recent_progress), self._over.wait, seconds, every)

    def __repr__(self) -> str:
        status = self.status
        return f"<RunningJob {status.name!r}: {status.message}, timestep {status.timestep}>"

    def _repr_html_(self) -> str:
        return self.status._repr_html_()
