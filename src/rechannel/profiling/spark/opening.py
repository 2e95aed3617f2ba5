"""An event log, read whole: its title, and what is wrong with it in words."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

from rechannel.profiling.model.words import counted
from rechannel.profiling.spark.event_files import find_log
from rechannel.profiling.spark.log import SparkLog
from rechannel.profiling.spark.times import left_out

OLDEST = (2, 1)
"""The first version of Spark whose logs are supported."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class OpenedLog:
    """An event log that was read."""

    log: SparkLog
    title: str
    """Name of the application, and version of Spark."""
    notes: list[str]
    """Problems, as sentences."""


def open_log(place: Path, *, strict: bool = False) -> OpenedLog:
    """Read an event log. strict: raise on the first bad line instead of skipping it. Raises TraceError."""
    found = find_log(place)
    log = SparkLog(strict=strict).read(found.lines(), str(place))
    log.finish()
    notes = [*found.notes, *_of_version(log.version)]
    notes += [f"line {number} was skipped: {reason}" for number, reason in log.bad]
    if more := log.bad_lines - len(log.bad):
        notes.append(f"{counted(more, 'more line was', 'more lines were')} skipped")
    notes += left_out(log.far)
    if log.first_job:
        notes.append(f"the log begins with job {log.first_job}: what was before is not known")
    if log.open_tasks:
        tasks = counted(log.open_tasks, "task has", "tasks have")
        notes.append(f"{tasks} no end in the log: the end of the stage or of the log counts")
    version = f", Spark {log.version}" if log.version else ""
    return OpenedLog(log=log, title=f"{log.name or place.name}{version}", notes=notes)


def _of_version(version: str) -> list[str]:
    """Return a note if the version of a log is older than those that are supported."""
    told = re.match(r"(\d{1,9})\.(\d{1,9})", version)
    if told is None or (int(told[1]), int(told[2])) >= OLDEST:
        return []
    oldest = ".".join(map(str, OLDEST))
    return [
        f"the log is of Spark {version}, and logs before {oldest} are not supported: figures may be"
        " missing or wrong"
    ]
