"""Connects what is open to a driver."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass
from functools import partial

import pyarrow as pa
from msgspec import structs

from rechannel.assembly.parts import Parts
from rechannel.assembly.seams import LeaseLike, Seams, Start
from rechannel.engine.control.host import ControlHost
from rechannel.engine.failures.stopping import Stopping
from rechannel.engine.journal.log import Journal
from rechannel.engine.loop.core.inline import Choice
from rechannel.engine.loop.core.state import LoopState, position_of
from rechannel.engine.loop.core.stream_time import StreamTime
from rechannel.engine.loop.draining import Draining
from rechannel.engine.loop.driver import Driver
from rechannel.engine.loop.housekeeping import Housekeeper
from rechannel.engine.loop.outside import DriverInbox, Outside
from rechannel.engine.loop.published import PublishedPosition
from rechannel.engine.loop.recovering import first_state
from rechannel.engine.loop.source_tracker import SourceTracker
from rechannel.engine.program.position import StreamPosition
from rechannel.engine.program.start_entries import reconciled
from rechannel.engine.program.upgrading import AT_START, began
from rechannel.engine.publish.publisher import Publisher
from rechannel.engine.reconfigure.cluster import Cluster
from rechannel.engine.reconfigure.history import History
from rechannel.engine.reconfigure.measured import Measured
from rechannel.engine.reconfigure.opener import Opener, Ready
from rechannel.engine.reconfigure.reconfigurer import Abilities, Reconfigurer
from rechannel.engine.reconfigure.switch import ProgramSwitch, offered_change
from rechannel.engine.stages.runner import Runner
from rechannel.engine.stages.sink_buffers import kept_columns
from rechannel.engine.stages.sink_rows import RowsOf
from rechannel.engine.view.pinned import Pinned
from rechannel.engine.view.state_view import StateView
from rechannel.model.configuration import Configuration
from rechannel.profiling.api import shares_of
from rechannel.profiling.job.shares import CriticalShares
from rechannel.reconfigure.changes.change import Change
from rechannel.reconfigure.edits import change_set
from rechannel.settings import Settings
from rechannel.state.store import Store
from rechannel.telemetry.hub import STORE, Hub


@dataclass(frozen=True, slots=True, kw_only=True)
class OpenParts:
    """What is open when this driver has taken over; nothing is connected yet."""

    journal: Journal
    lease: LeaseLike
    opener: Opener
    current: Ready
    configuration: Configuration
    cluster: Cluster
    runner: Runner
    rows_of: RowsOf
    hub: Hub


@dataclass(frozen=True, slots=True, kw_only=True)
class Wiring:
    """Makes a driver of what is open."""

    seams: Seams
    name: str
    settings: Settings
    start: Start
    opened: OpenParts

    @property
    def journal(self) -> Journal:
        """The journal."""
        return self.opened.journal

    def parts(self) -> Parts:
        """Connect what is open. Only a controller can still be at fault: its `on_init` may raise."""
        opened = self.opened
        seams, settings, journal = self.seams, self.settings, self.journal
        current, runner, hub = opened.current, opened.runner, opened.hub
        stopping = Stopping(settings.patience.stop_seconds)
        borne = seams.bearing(seams.store, stopping, partial(hub.troubles, STORE))
        journal.write_through(borne)
        inbox = DriverInbox()
        publisher = self._publisher(stopping, inbox)
        view = StateView(current.plan, current.program.programs, seams.scan)
        switch = ProgramSwitch(
            current=current,
            runner=runner,
            publisher=publisher,
            view=view,
            state=lambda: journal.state,
        )
        held = Pinned()
        housekeeper = Housekeeper(
            seams.store,
            journal,
            seams.sweep_every,
            lambda: switch.operators_to_come,
            held.files,
            thread=seams.thread,
            trouble=hub.troubles,
            side_by_side=seams.deletes,
        )
        state = first_state(
            journal.state, current.plan, opened.configuration, seams.sized(settings)
        )
        known = self._reconciled(state)
        outside = self._outside(
            switch=switch,
            publisher=publisher,
            inbox=inbox,
            store=borne,
            housekeeper=housekeeper,
            first=position_of(known, 0, self.journal.state.coordination),
        )
        # The time of the stream is not read yet: that is for the driver to begin with.
        outside.controllers.resume(lambda: outside.position(known, journal.state.stream_ms))
        return Parts(
            name=self.name,
            store=seams.store,
            journal=journal,
            switch=switch,
            publisher=publisher,
            opener=opened.opener,
            housekeeper=housekeeper,
            changes=outside.changes,
            controllers=outside.controllers,
            measured=outside.measured,
            driver=Driver(outside, state, stopping=stopping, executor=seams.executor),
            runner=runner,
            choose=outside.choose,
            lease=opened.lease,
            hub=hub,
            view=view,
            held=held,
            session=seams.session,
        )

    def _reconciled(self, state: LoopState) -> LoopState:
        """What controllers and other threads see until the driver has recovered: the journal's Configuration."""
        journal = self.journal.state
        if not journal.configurations:
            return state
        held = reconciled(journal.configuration_at(state.last + 1), state.configuration)
        return structs.replace(state, configuration=held)

    def _publisher(self, stopping: Stopping, inbox: DriverInbox) -> Publisher:
        """What publishes timesteps after their commit."""
        opened = self.opened
        hub, runner, program = opened.hub, opened.runner, opened.current.program

        def kept(timestep: int, files: Mapping[str, list[str]]) -> pa.Schema | None:
            """What an upgrade finds is published as it was committed; what a return finds, as its program says."""
            since = began(self.journal.state, program.version)
            upgraded = AT_START in program.record and "back_to" not in program.record
            if not upgraded or timestep >= since:
                return None
            return kept_columns(self.seams.store, files)

        return Publisher(
            sinks=opened.current.plan.sinks,
            writers=opened.current.writers,
            rows_of=opened.rows_of,
            journal=self.journal,
            backlog=self.settings.publish_backlog,
            tell=hub.published,
            wake=inbox.wake,
            trouble=hub.troubles,
            stopping=stopping,
            meaning=runner.meaning,
            columns=kept,
        )

    def _outside(
        self,
        *,
        switch: ProgramSwitch,
        publisher: Publisher,
        inbox: DriverInbox,
        store: Store,
        housekeeper: Housekeeper,
        first: StreamPosition,
    ) -> Outside:
        """Everything that the driver acts on. store: for the history. first: what other threads see at the start."""
        opened = self.opened
        seams, journal, runner = self.seams, self.journal, opened.runner
        published = PublishedPosition(first)
        sources = self._sources(opened.current, opened.hub)
        measured = Measured(lambda: journal.state.manifests)
        history = History(store, measured)
        changes = Reconfigurer(
            journal=journal,
            measured=measured,
            abilities=Abilities.of(opened.current.plan, opened.current.readers),
            preparer=seams.preparer(switch, opened.cluster, runner),
            limits=opened.cluster,
            wake=inbox.wake,
            executor=seams.executor,
            listener=history.over,
        )

        def offer(change: Change, *, supersede: bool) -> AbstractContextManager[Change]:
            place = published.position
            wanted = change_set(change)
            return offered_change(wanted, switch, opened.opener, place, supersede=supersede)

        def profile(*, after: int, most: int) -> CriticalShares | None:
            # Tasks of a timestep may have run before the commit of the one that is in flight with it.
            reaching = most + published.position.configuration.in_flight
            return shares_of(opened.hub.recent_events(reaching), after=after, most=most)

        opened.hub.told = inbox.wake
        controllers = ControlHost(
            journal=journal,
            changes=changes,
            progress=lambda: opened.hub.recent_progress,
            tasks=lambda: opened.hub.recent_tasks,
            profile=profile,
            clock=seams.clock,
            wake=inbox.wake,
            given=self.start.controllers,
            offer=offer,
            executors=lambda: [each.id for each in opened.cluster.executors()],
            placed=opened.runner.placed,
            tell=opened.hub.shown,
            decided=opened.hub.decided,
            find=self.start.find,
            executor=seams.executor,
        )
        return Outside(
            journal=journal,
            switch=switch,
            runner=runner,
            choose=Choice(rows=self.settings.inline_rows, native=sources.is_native),
            publisher=publisher,
            sources=sources,
            changes=changes,
            controllers=controllers,
            measured=measured,
            history=history,
            listener=opened.hub,
            draining=Draining(inbox.wake),
            inbox=inbox,
            published=published,
            sweep=housekeeper.tick,
            clock=seams.clock,
            waits=seams.waits or seams.steady or seams.clock,
        )

    def _sources(self, current: Ready, hub: Hub) -> SourceTracker:
        """The sources, where the journal says that they are."""
        state, settings = self.journal.state, self.settings
        intents = state.open_intents
        time = StreamTime(
            stream_ms=intents[-1].stream_ms if intents else state.stream_ms,
            jump_ms=settings.clock_jump_ms,
            downtime_ms=settings.downtime_ms,
        )
        return SourceTracker(
            current.readers,
            state.offsets,
            time,
            self.seams.clock,
            self.seams.sized(settings).timestep_bytes,
            steady=self.seams.steady,
            trouble=hub.troubles,
            held=lambda: bool(self.journal.state.savepoints),
        )
