"""How soon Spark takes an executor for lost, as a set of settings that fit each other.

With Spark's own, a host that dies in silence holds up a timestep for some 50 seconds: the driver waits 120 seconds for
a heartbeat, a task that fetches its shuffle files asks three times with pauses of 5 seconds, and only the master's 60
seconds end that. "fast" waits 8 seconds for a heartbeat. What it costs: an executor that pauses longer than that, in a
garbage collection or on an overloaded machine, is lost as well, and its tasks run again elsewhere.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from rechannel.errors import SessionError

SPARK, FAST = "spark", "fast"
HEARTBEAT, TIMEOUT = "spark.executor.heartbeatInterval", "spark.network.timeout"
LOST = "spark.storage.blockManagerHeartbeatTimeoutMs"
"""After how long without a heartbeat an executor is lost. Spark takes TIMEOUT for it only where it is not set."""
ASK = "spark.rpc.askTimeout"

_FAST = {
    # The driver: an executor without a heartbeat for so long is lost; how often it looks.
    TIMEOUT: "8s",
    LOST: "8s",
    "spark.network.timeoutInterval": "1s",
    HEARTBEAT: "1s",
    # A task that fetches from a host that does not answer fails after some 5 seconds, and names the host. It learns
    # nothing of a lost executor, so these add up to less than the time after which one is lost.
    "spark.shuffle.io.connectionTimeout": "3s",
    "spark.shuffle.io.connectionCreationTimeout": "2s",
    "spark.shuffle.io.maxRetries": "1",
    "spark.shuffle.io.retryWait": "200ms",
    # Nothing waits for an answer longer than for a heartbeat.
    ASK: "8s",
    # A copy of a task that takes so long, also where a stage has too few tasks to compare it with others.
    "spark.speculation.task.duration.threshold": "1s",
    # All files of a host are taken for lost with the first of them, and not one stage attempt after the other.
    "spark.files.fetchFailure.unRegisterOutputOnHost": "true",
}
WORKER_TIMEOUT = "12"
"""`spark.worker.timeout` in seconds that fits, for the daemons of a standalone cluster."""

PROFILES: Mapping[str, Mapping[str, str]] = {SPARK: {}, FAST: _FAST}
BEATS = 4
"""Heartbeats that have to be missing before an executor is taken for lost."""


def recovery_settings(profile: str, given: Mapping[str, str]) -> Mapping[str, str]:
    """Return what a profile sets. given: further settings of the session, which go before.

    Raises SessionError for an unknown profile, and for settings that contradict it.
    """
    if profile not in PROFILES:
        msg = f"recovery={profile!r} is unknown; it is {' or '.join(map(repr, PROFILES))}"
        raise SessionError(msg)
    if profile != FAST:
        return PROFILES[profile]
    made = dict(_FAST)
    if TIMEOUT in given and LOST not in given:
        made[LOST] = f"{_seconds(TIMEOUT, given[TIMEOUT], default='s') * 1e3:.0f}ms"
    _check({**made, **given})
    return made


_UNITS = {"us": 1e-6, "ms": 1e-3, "s": 1.0, "m": 60.0, "min": 60.0, "h": 3_600.0, "d": 86_400.0}


def _check(settings: Mapping[str, str]) -> None:
    heartbeat = _seconds(HEARTBEAT, settings[HEARTBEAT], default="ms")
    for name, default in ((TIMEOUT, "s"), (LOST, "ms")):
        if BEATS * heartbeat > _seconds(name, settings[name], default=default):
            msg = (
                f"{name} is {settings[name]} and {HEARTBEAT} is {settings[HEARTBEAT]}: executors that live would be"
                f" taken for lost. Leave room for {BEATS} heartbeats, or leave both to recovery={FAST!r}"
            )
            raise SessionError(msg)


def _seconds(name: str, value: str, *, default: str) -> float:
    """Return a length of time as Spark reads it. default: the unit of a bare number."""
    found = re.fullmatch(r"(\d+)\s*([a-z]*)", value.strip().lower())
    unit = _UNITS.get(found[2] or default) if found else None
    if found is None or unit is None:
        raise SessionError(f"{name} is {value!r}, which is no length of time, such as 10s")
    return int(found[1]) * unit
