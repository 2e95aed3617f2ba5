"""Whether a session's JVM still lives. A dead one answers no call, and some calls would wait for it for ever."""

from __future__ import annotations

import signal
import socket
from typing import Any

_CONNECT_SECONDS = 2.0


def gone(spark: Any) -> str | None:
    """Why nothing can run on this session any more, in a sentence; None while it can, or if that is not known.

    The process is asked, where this process has started it; else whether anything listens at its address.
    """
    context = getattr(spark, "_sc", None)
    gateway = getattr(context, "_gateway", None)
    if gateway is None:
        return None  # Spark Connect: its calls have time-outs of their own
    process = getattr(gateway, "proc", None)
    if process is not None:
        code = process.poll()
        return None if code is None else ended(process.pid, code)
    address = gateway.gateway_parameters
    try:
        with socket.create_connection((address.address, address.port), _CONNECT_SECONDS):
            return None
    except TimeoutError:
        return None  # busy, which is not dead
    except OSError as error:
        return f"Spark's JVM at {address.address}:{address.port} does not answer any more ({error})"


def ended(pid: int, code: int) -> str:
    """What a JVM's exit code tells."""
    how = f"with exit code {code}"
    if code < 0:
        try:
            how = f"by signal {signal.Signals(-code).name}"
        except ValueError:
            how = f"by signal {-code}"
    hint = " (out of memory?)" if code == -signal.SIGKILL else ""
    return f"Spark's JVM (process {pid}) has ended {how}{hint}"
