"""A Spark session fit for timesteps, and what is missing on one that the user made."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from rechannel.engine.spark.session.recovery import SPARK, recovery_settings
from rechannel.engine.spark.session.submitted import (
    APP_NAME,
    MASTER,
    beside_given,
    given_settings,
    is_submitted,
)
from rechannel.errors import JavaError

OLDEST_JAVA = 17


@dataclass(frozen=True, slots=True, kw_only=True)
class Advice:
    """One setting: what it should be, what it costs when it is not, and whether it can be set on a running session."""

    key: str
    value: str
    cost: str
    live: bool = False


ADAPTIVE = "spark.sql.adaptive.enabled"
_CHECKSUM = "spark.sql.shuffle.orderIndependentChecksum"
STEADY = {
    f"{_CHECKSUM}.enabled": "false",
    f"{_CHECKSUM}.enableFullRetryOnMismatch": "false",
    f"{_CHECKSUM}.enableQueryLevelRollbackOnMismatch": "false",
    ADAPTIVE: "false",
}
"""Exchanges are made with these, whatever the session has (`private.steady`). Spark ignores what it does not know.

Spark would hash every row of every exchange to find tasks that are not deterministic. These are, but for the times in
their reports; with full retries Spark would end a stage for them when an executor is lost. An adaptive plan has no
exchange before it has run."""
SOCKETS = "spark.python.unix.domain.socket.dir"
SOCKETS_DIR = "/tmp"
"""Where sockets between executors and their Python workers are. The name of one may have 107 bytes: the temporary
directory of a container of YARN alone has more."""


ADVICE = (
    Advice(
        key="spark.python.unix.domain.socket.enabled",
        value="true",
        cost="every Python stage talks TCP: about 40 ms more per stage",
    ),
    Advice(
        key=ADAPTIVE,
        value="false",
        cost="Spark plans every timestep in pieces: tens of milliseconds more",
        live=True,
    ),
    Advice(
        key="spark.sql.execution.arrow.maxRecordsPerBatch",
        value="200000",
        cost="rows reach Python in batches of 10,000: slower for large timesteps",
        live=True,
    ),
    Advice(
        key="spark.shuffle.reduceLocality.enabled",
        value="false",
        cost="tasks are pulled to where their input is and not to where their state is",
    ),
    Advice(
        key="spark.broadcast.UDFCompressionThreshold",
        value="1g",
        cost="a program of more than 1 MiB leaves a file on the driver's disk in every timestep",
    ),
    Advice(
        key="spark.sql.session.timeZone",
        value="UTC",
        cost="timestamps are shown in local time; state keeps them in UTC",
        live=True,
    ),
)
"""What `session` sets and `advise` looks for."""

DEFAULTS = {
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.sql.shuffle.partitions": "2",
    "spark.python.worker.reuse": "true",
    # A task waits that long for the executor that has its state; then any other will do. Tasks of an executor that has
    # died wait as well, once for each kind of nearness, and Spark looks only so often whether they have waited enough.
    "spark.locality.wait": "500ms",
    "spark.locality.wait.node": "0s",
    "spark.locality.wait.rack": "0s",
    "spark.scheduler.revive.interval": "100ms",
    # An executor that is given back hands on the shuffle files of timesteps under way before it ends.
    "spark.decommission.enabled": "true",
    "spark.storage.decommission.enabled": "true",
    "spark.storage.decommission.shuffleBlocks.enabled": "true",
    # The paper's rule for stragglers: a copy of a task that takes 1.4 times the median of its stage. It pays
    # where there
    # are several hosts (Spark never starts a copy on the host of the original).
    "spark.speculation.multiplier": "1.4",
    "spark.speculation.quantile": "0.5",
    "spark.speculation.interval": "50ms",
    "spark.shuffle.sort.bypassMergeThreshold": "1000",
}


DAEMON_MODULE = "spark.python.daemon.module"
DAEMON = {DAEMON_MODULE: "rechannel.engine.spark.daemon"}
"""What workers are forked from. Only where tasks surely find this package: on the driver's own machine."""
COPIED_AFTER = "spark.speculation.minTaskRuntime"
"""How long a task takes at least before Spark starts a copy of it. The task that loses ends with its Python worker, so
that the next one there begins with a new worker. If that took longer than this, its copy would win again, and so on
for good. A worker that is forked with its modules takes a quarter of a second, any other one more than a second."""
FORKED_MS, IMPORTING_MS = 500, 2_000
WITHIN = {"spark.shuffle.compress": "false"}
"""Of a session that has one machine, on which no row travels. LZ4 took a twentieth of the time of a large timestep."""


def session(
    master: str | None = None,
    *,
    name: str = "rechannel",
    speculation: bool | None = None,
    recovery: str = SPARK,
    **config: str,
) -> Any:
    """A SparkSession with everything set that timesteps profit from.

    Under `spark-submit`, its options and its defaults file come first: they are kept where this would set something
    else, and what is asked for here and contradicts them is refused.

    Args:
        master: Spark's; None = `local[*]`, with retries of failed tasks (plain `local[n]` has none).
        name: of the application, as Spark's pages and logs show it.
        speculation: whether Spark runs slow tasks a second time; None = unless the master is local.
        recovery: how soon an executor that says nothing is taken for lost: "spark" = as Spark does, after one to two
            minutes; "fast" = after 8 seconds (see "When things fail" in the documentation).
        config: further Spark settings, with `__` for dots (`spark__driver__memory="4g"`). On a cluster whose hosts
            have this package installed, `spark__python__daemon__module="rechannel.engine.spark.daemon"` saves every
            new Python worker a second of CPU, and lets Spark copy slow tasks after half a second instead of two.

    Raises:
        JavaError: Java is missing or older than 17.
        SessionError: settings contradict `recovery` or `spark-submit`.
    """
    require_java()
    from pyspark.sql import SparkSession

    further = {key.replace("__", "."): value for key, value in config.items()}
    if speculation is not None:
        further["spark.speculation"] = str(speculation).lower()
    if master is not None:
        further[MASTER] = retrying(master)
    given = given_settings() if is_submitted() else {}
    if MASTER in given and retrying(given[MASTER]) == further.get(MASTER):
        del further[MASTER]  # the same but for retries
    where = further.get(MASTER) or given.get(MASTER) or retrying("local[*]")
    _find_python(where, submitted=bool(given))
    defaults = {
        APP_NAME: name,
        MASTER: where,
        **_defaults(where, {**given, **further}),
        **recovery_settings(recovery, {**given, **further}),
    }
    settings = beside_given(defaults, further, given) if given else {**defaults, **further}
    builder = SparkSession.builder
    for key, value in settings.items():
        builder = builder.config(key, value)
    made = builder.getOrCreate()
    made.sparkContext.setLogLevel("ERROR")
    return made


def _find_python(master: str, *, submitted: bool) -> None:
    """Have workers run the Python of this process, unless the environment names another.

    Of the hosts of a cluster that `spark-submit` was given, this is not known: Spark's own rule holds there.
    """
    if not submitted or master.startswith("local["):
        os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    os.environ.setdefault("PYSPARK_DRIVER_PYTHON", sys.executable)


def _defaults(master: str, asked: Mapping[str, str]) -> dict[str, str]:
    """What a session has on a master, unless something else is asked for. asked: what is."""
    local = master.startswith("local[")
    forked = local or asked.get(DAEMON_MODULE) == DAEMON[DAEMON_MODULE]
    return {
        **DEFAULTS,
        **{advice.key: advice.value for advice in ADVICE},
        **STEADY,
        **({**DAEMON, **WITHIN} if local else {SOCKETS: SOCKETS_DIR}),
        "spark.speculation": str(not local).lower(),
        COPIED_AFTER: f"{FORKED_MS if forked else IMPORTING_MS}ms",
    }


def retrying(master: str) -> str:
    """A local master that runs failed tasks again, as clusters do: local[n] becomes local[n,4]."""
    if master == "local":
        return "local[1,4]"
    if master.startswith("local[") and "," not in master:
        return f"{master[:-1]},4]"
    return master


def advise(spark: Any) -> list[str]:
    """What a session made elsewhere lacks, and what that costs; one sentence each, empty when nothing is missing."""
    out = []
    for advice in ADVICE:
        found = spark.conf.get(advice.key, None)
        if str(found).lower() != advice.value.lower():
            when = (
                "can be set now with spark.conf.set"
                if advice.live
                else "is set when the session is made"
            )
            out.append(f"{advice.key} is {found}, better {advice.value}: {advice.cost} ({when})")
    if not is_connect(spark):
        master = spark.sparkContext.master
        if master.startswith("yarn") and not spark.conf.get(SOCKETS, None):
            out.append(
                f"{SOCKETS} is not set, better {SOCKETS_DIR}: containers have temporary directories with names that"
                " are too long for a socket, and Python workers die (is set when the session is made)"
            )
        if master.startswith("local[") and "," not in master:
            out.append(f"master {master} never runs a failed task again: use {retrying(master)}")
    return out


def is_connect(spark: Any) -> bool:
    """Whether a session is a Spark Connect client (no JVM in reach)."""
    return ".connect." in type(spark).__module__


def require_java() -> None:
    """Raise JavaError, saying what to do, when Java is missing or too old."""
    home = os.environ.get("JAVA_HOME")
    java = f"{home}/bin/java" if home else shutil.which("java")
    if not java or not shutil.which(java):
        msg = (
            f"no Java found ({'JAVA_HOME=' + home if home else 'no `java` on the PATH'}); Spark needs "
            f"Java {OLDEST_JAVA} or newer: install a JRE and set JAVA_HOME"
        )
        raise JavaError(msg)
    text = subprocess.run([java, "-version"], capture_output=True, text=True, check=False).stderr
    version = java_version(text)
    if version is not None and version < OLDEST_JAVA:
        msg = (
            f"{java} is Java {version}; Spark needs Java {OLDEST_JAVA} or newer: "
            "install one and point JAVA_HOME to it"
        )
        raise JavaError(msg)


def java_version(text: str) -> int | None:
    """Major version from what `java -version` prints; None when it says none."""
    _, _, rest = text.partition('version "')
    parts = rest.partition('"')[0].replace("-", ".").split(".")
    if not parts[0].isdigit():
        return None
    major = int(parts[0])
    return int(parts[1]) if major == 1 and len(parts) > 1 and parts[1].isdigit() else major
