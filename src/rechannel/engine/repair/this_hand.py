"""This process, where it writes to a state directory while no driver runs."""

from __future__ import annotations

import getpass
import os
import socket
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


def this_user() -> str:
    """Return who runs this process, as the history names them: user and host."""
    try:
        user = getpass.getuser()
    except (OSError, KeyError):  # of a container without such a user
        user = str(os.getuid())
    return f"{user}@{socket.gethostname()}"
