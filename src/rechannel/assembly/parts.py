"""What an assembly makes: one driver that is open, and everything around it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from rechannel.engine.control.host import ControlHost
from rechannel.engine.journal.log import Journal
from rechannel.engine.loop.core.inline import Choice
from rechannel.engine.loop.driver import Driver
from rechannel.engine.loop.housekeeping import Housekeeper
from rechannel.engine.publish.publisher import Publisher
from rechannel.engine.reconfigure.measured import Measured
from rechannel.engine.reconfigure.opener import Opener
from rechannel.engine.reconfigure.reconfigurer import Reconfigurer
from rechannel.engine.reconfigure.switch import ProgramSwitch
from rechannel.engine.stages.runner import Runner
from rechannel.engine.view.pinned import Pinned
from rechannel.engine.view.state_view import StateView
from rechannel.state.store import Store
from rechannel.telemetry.hub import Hub


@dataclass(frozen=True, kw_only=True)
class Parts:
    """One driver that is open, and everything around it. Nothing runs yet."""

    name: str
    store: Store
    switch: ProgramSwitch
    opener: Opener
    journal: Journal
    housekeeper: Housekeeper
    driver: Driver
    changes: Reconfigurer
    controllers: ControlHost
    measured: Measured
    publisher: Publisher
    runner: Runner
    choose: Choice
    lease: Any
    hub: Hub
    view: StateView
    held: Pinned
    session: Any = None
