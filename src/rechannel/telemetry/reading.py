"""Reading an event stream, also while it is being written."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from rechannel.errors import DamagedStateError
from rechannel.telemetry.events import Event, event_from_json
from rechannel.telemetry.files import check_header, event_files

_POLL_S = 0.01


def read_events(
    directory: Path,
    *,
    after: int = 0,
    wait_s: float = 1.0,
    sleep: Callable[[float], None] = time.sleep,
) -> Iterator[Event]:
    """Yield all events written so far, oldest first.

    after: how many events to leave out, counted from the first ever written: the `position` of an
    `EventReader`, or 0. wait_s: how long the rest of a torn last line is waited for, in seconds;
    then the stream ends before it. Raises what `EventReader.read` raises.
    """
    reader = EventReader(directory, after=after)
    yield from reader.read()
    for _ in range(round(wait_s / _POLL_S)):
        if not reader.torn:
            return
        sleep(_POLL_S)
        yield from reader.read()


class EventReader:
    """Reads events and remembers where it stopped; call `read` again to follow a running job.

    after: number of the first event to read. Events that were deleted meanwhile are skipped.
    bad: called with a message for every complete line that is not an event, and the line is skipped; None = it is an
    error.
    """

    def __init__(
        self, directory: Path, *, after: int = 0, bad: Callable[[str], None] | None = None
    ) -> None:
        self._directory = directory
        self._after = after
        self._bad = bad
        self._path: Path | None = None
        self._first = 0
        self._offset = 0
        self._number = -1
        self._torn = False

    @property
    def position(self) -> int:
        """Number of the next event."""
        return max(self._after, self._first, self._number)

    @property
    def torn(self) -> bool:
        """Whether the last `read` ended before a line that is incomplete so far."""
        return self._torn

    def read(self) -> Iterator[Event]:
        """Yield the events completed since the last call, without kinds of a later version.

        Raises NewerFormatError for a later format, and DamagedStateError naming file and line for a
        complete line that is not an event.
        """
        while True:
            yield from self._rest_of_file()
            following = self._following()
            if following is None:
                return
            # The writer left the file before the next one appeared, so this is the end of it.
            yield from self._rest_of_file()
            self._first, self._path = following
            self._offset, self._number = 0, self._first - 1

    def _following(self) -> tuple[int, Path] | None:
        files = event_files(self._directory)
        if self._path is not None:
            return next((file for file in files if file[0] > self._first), None)
        skippable = [file for file in files if file[0] <= self._after]
        return skippable[-1] if skippable else next(iter(files), None)

    def _rest_of_file(self) -> Iterator[Event]:
        self._torn = False
        if self._path is None:
            return
        try:
            file = self._path.open("rb")
        except FileNotFoundError:  # deleted: older than what is kept
            return
        with file:
            file.seek(self._offset)
            for line in file:
                if not line.endswith(b"\n"):
                    self._torn = True
                    return
                event = self._parsed(line, self._path)
                self._offset += len(line)
                self._number += 1
                if event is not None:
                    yield event

    def _parsed(self, line: bytes, path: Path) -> Event | None:
        """Return the event of a line; None for the header and for events to skip."""
        if self._number < self._first:
            check_header(line, path)
            return None
        if self._number < self._after:
            return None
        try:
            return event_from_json(json.loads(line))
        except (AttributeError, KeyError, TypeError, ValueError) as error:
            what = f"line {self._number - self._first + 2} of {path} is not an event ({error})"
            if self._bad is None:
                msg = f"{what}; remove the file to read the others"
                raise DamagedStateError(msg) from error
            self._bad(what)
            return None
