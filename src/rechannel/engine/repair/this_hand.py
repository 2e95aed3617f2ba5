"""This process, when it writes to a state directory and is no driver."""

from __future__ import annotations

import time
import uuid

from rechannel.engine.journal.lease import process_started
from rechannel.engine.journal.this_driver import this_holder
from rechannel.engine.repair.alone import Hand


def this_hand() -> Hand:
    """Return this process."""
    return Hand(
        holder=this_holder(),
        id=uuid.uuid4().hex,
        clock=lambda: int(time.time() * 1000),
        started=process_started,
    )
