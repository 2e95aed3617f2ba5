"""The telemetry of a job on disk: its state directory, the directory `telemetry` in it, or one file of that."""

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
    """Event files of a directory. first: number of the first event; until: of the one behind the last, None = all."""

    directory: Path
    first: int = 0
    until: int | None = None


@dataclass(slots=True)
class ReadJob:
    """A job's telemetry, read. bad: what is wrong with which line, the first few. bad_lines: how many there are."""

    log: JobLog = field(default_factory=JobLog)
    bad: list[str] = field(default_factory=list)
    bad_lines: int = 0

    def skip(self, what: str) -> None:
        """A line is no event."""
        self.bad_lines += 1
        if len(self.bad) < _TOLD:
            self.bad.append(what)

    @property
    def title(self) -> str:
        """Whose telemetry it is."""
        return f"{self.log.job or 'a job'}, Rechannel {self.log.version or 'unknown'}"

    @property
    def notes(self) -> list[str]:
        """What is wrong with it, in words."""
        notes = [f"skipped: {what}" for what in self.bad]
        if self.bad_lines > len(self.bad):
            notes.append(f"{self.bad_lines - len(self.bad)} more lines were skipped")
        return notes


def job_files(place: Path) -> JobFiles | None:
    """A job's telemetry, if that is what a path names; a Spark log of several files is none.

    Raises TraceError for the state directory of a job that kept none.
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
        msg = f"{place} has no telemetry: the job ran with rc.Settings(telemetry=False), or it was deleted"
        raise TraceError(msg)
    return None


def read_job(files: JobFiles, *, strict: bool = False) -> ReadJob:
    """Read it. strict: refuse bad lines, which are otherwise left out.

    A file without its header is refused. Raises TraceError.
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
