"""The telemetry of a job on disk: its state directory, the directory `telemetry` in it, or one
file of that.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

from rechannel.errors import DamagedStateError, TraceError
from rechannel.profiling.job.log import JobLog
from rechannel.state.keys import IDENTITY
from rechannel.telemetry.files import event_files
from rechannel.telemetry.reading import EventReader

TELEMETRY = "telemetry"
_HEADER = b'"rechannel telemetry"'
_TOLD = 5
"""Bad lines that are named one by one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class JobFiles:
    """Event files of a directory."""

    directory: Path
    first: int = 0
    """Number of the first event."""
    until: int | None = None
    """Number after the last event; None for all."""


@dataclass(slots=True)
class ReadJob:
    """The telemetry of a job, as it was read."""

    log: JobLog = field(default_factory=JobLog)
    bad: list[str] = field(default_factory=list)
    """Line and problem of bad lines, the first few."""
    bad_lines: int = 0
    """Number of bad lines."""

    def skip(self, what: str) -> None:
        """Count a line that is not an event."""
        self.bad_lines += 1
        if len(self.bad) < _TOLD:
            self.bad.append(what)

    @property
    def title(self) -> str:
        """Job and version."""
        return f"{self.log.job or 'a job'}, Rechannel {self.log.version or 'unknown'}"

    @property
    def notes(self) -> list[str]:
        """Problems, as sentences."""
        notes = [f"skipped: {what}" for what in self.bad]
        if self.bad_lines > len(self.bad):
            notes.append(f"{self.bad_lines - len(self.bad)} more lines were skipped")
        return notes


def job_files(place: Path) -> JobFiles | None:
    """Return the telemetry files at a path; None if it is something else, such as a rolled Spark
    log.

    Raises TraceError for the state directory of a job without telemetry.
    """
    if place.is_file():
        files = event_files(place.parent)
        numbers = [number for number, file in files if file == place]
        if not numbers or _HEADER not in _first_line(place):
            return None
        later = [number for number, _ in files if number > numbers[0]]
        return JobFiles(directory=place.parent, first=numbers[0], until=min(later, default=None))
    for directory in (place / TELEMETRY, place):
        if event_files(directory):
            return JobFiles(directory=directory)
    if (place / IDENTITY).is_file():
        msg = f"{place} has no telemetry: the job ran with rc.Settings(telemetry=False), or the files were deleted"
        raise TraceError(msg)
    return None


def read_job(files: JobFiles, *, strict: bool = False) -> ReadJob:
    """Read the telemetry of a job. Raises TraceError.

    strict: raise on the first bad line instead of skipping it. A file without its header is always
    an error.
    """
    found = ReadJob()
    reader = EventReader(files.directory, after=files.first, bad=None if strict else found.skip)
    try:
        for event in reader.read():
            number = reader.position - 1
            if files.until is not None and number >= files.until:
                break
            try:
                found.log.see(event)
            except (TypeError, ValueError) as error:
                what = f"event {number} of {files.directory}: {error}"
                if strict:
                    raise TraceError(what) from error
                found.skip(what)
    except DamagedStateError as error:
        raise TraceError(str(error)) from error
    found.log.close()
    return found


def _first_line(place: Path) -> bytes:
    with place.open("rb") as file:
        return file.readline(1 << 10)
