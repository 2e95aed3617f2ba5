"""The files and lines of an event log: one file, a pipe, or a directory of pieces.

Spark writes one file, or a directory `eventlog_v2_...` of rolled pieces (`events_1_...`,
`events_2_...`, of which a `.compact` one replaces all pieces up to its number). Databricks stores
`eventlog-YYYY-MM-DD--HH-MM.gz`, one after the other, and the newest piece as `eventlog`.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from rechannel.errors import TraceError
from rechannel.profiling.spark.codecs import BrokenStreamError, unpacked

LONGEST_LINE = 1 << 26
"""Bytes of the longest line that is read; the rest of a longer one is dropped as it comes."""
_ROLLED = re.compile(r"events_(\d+)_")
_STORED = re.compile(r"eventlog(-\d.*?)?(\.gz)?$")
_APPLICATION = re.compile(r"(eventlog_v2_)?(app|application|local|spark|driver)[-_]|eventlog_v2_")
_NAMED = 3
"""Applications and gaps that a message names."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LogFiles:
    """The files of one log."""

    files: Sequence[Path]
    """In order of time."""
    notes: Sequence[str] = ()
    """Problems, as sentences."""

    def lines(self) -> Iterator[bytes]:
        """Yield all lines with their line breaks; the last one may have none. Raises TraceError."""
        for file in self.files:
            try:
                with file.open("rb") as stream:
                    yield from _lines(unpacked(stream, file.name))
            except BrokenStreamError as error:
                msg = f"{file}: {error}"
                raise TraceError(msg) from error
            except OSError as error:
                msg = f"{file} cannot be read: {error.strerror or error}"
                raise TraceError(msg) from error


def find_log(path: str | Path) -> LogFiles:
    """Find the files of a log. Raises TraceError if there is none, or more than one."""
    place = Path(path)
    try:
        if not place.is_dir():
            if not place.exists():
                msg = f"event log {place} does not exist"
                raise TraceError(msg)
            return LogFiles(files=[place])
        files = sorted(place.iterdir())
    except OSError as error:
        msg = f"{place} cannot be read: {error.strerror or error}"
        raise TraceError(msg) from error
    rolled = [(int(m[1]), file) for file in files if (m := _ROLLED.match(file.name))]
    if rolled:
        return _rolled(rolled)
    stored = [(m, file) for file in files if (m := _STORED.match(file.name)) and file.is_file()]
    if stored:
        # Those with a time come in its order; the one without is the newest.
        return LogFiles(files=[file for _, file in sorted(stored, key=_stored_at)])
    raise TraceError(_elsewhere(place, files))


def log_files(path: str | Path) -> list[Path]:
    """Return the files of a log, in order. Raises TraceError."""
    return list(find_log(path).files)


def log_lines(path: str | Path) -> Iterator[bytes]:
    """Yield the lines of all files of a log with their line breaks; the last one may have none.

    Raises TraceError.
    """
    return find_log(path).lines()


def _rolled(pieces: Sequence[tuple[int, Path]]) -> LogFiles:
    # A compacted file replaces all files up to its number.
    compacted = [number for number, file in pieces if file.name.endswith(".compact")]
    least = max(compacted, default=0)
    chosen = {
        number: file
        for number, file in sorted(pieces)
        if number > least or (file.name.endswith(".compact") and number == least)
    }
    return LogFiles(files=list(chosen.values()), notes=_missing(chosen, max(1, least)))


def _missing(chosen: Mapping[int, Path], first: int) -> list[str]:
    """Return a note on the numbers between `first` and the last one that no file has."""
    numbers = sorted(chosen)
    gaps = [
        f"{before + 1}" if before + 2 == after else f"{before + 1} to {after - 1}"
        for before, after in zip([first - 1, *numbers], numbers, strict=False)
        if after > before + 1
    ]
    if not gaps:
        return []
    more = f" and {len(gaps) - _NAMED} more" if len(gaps) > _NAMED else ""
    what = "piece" if len(gaps) == 1 and " to " not in gaps[0] else "pieces"
    return [
        f"{what} {', '.join(gaps[:_NAMED])}{more} of the rolled log"
        f" {'is' if what == 'piece' else 'are'} missing: what happened then is not known"
    ]


def _stored_at(piece: tuple[re.Match[str], Path]) -> tuple[bool, list[int], str]:
    found, file = piece
    told = found[1]
    return told is None, [int(part) for part in re.findall(r"\d+", told or "")], file.name


def _elsewhere(place: Path, files: Sequence[Path]) -> str:
    """Return why a directory is no log."""
    names = [file.name for file in files if _APPLICATION.match(file.name)]
    if not names:
        return (
            f"{place} is a directory without files events_1_..., events_2_..., ... or eventlog:"
            " give the path of one event log"
        )
    more = f" and {len(names) - _NAMED:,} more" if len(names) > _NAMED else ""
    what = "an event log" if len(names) == 1 else f"{len(names):,} event logs"
    return (
        f"{place} holds {what} ({', '.join(names[:_NAMED])}{more}): give the path of one,"
        f" such as {place / names[0]}"
    )


def _lines(pieces: Iterable[bytes]) -> Iterator[bytes]:
    """Split pieces into lines. Of a line that is longer than `LONGEST_LINE`, about as much is kept."""
    left: list[bytes] = []
    held, begun = 0, False
    for piece in pieces:
        lines = piece.split(b"\n")
        if held <= LONGEST_LINE:
            left.append(lines[0])
            held += len(lines[0])
        elif not begun:
            msg = f"it is not an event log: its first line is longer than {LONGEST_LINE >> 20} MiB"
            raise BrokenStreamError(msg)
        if len(lines) > 1:
            begun = True
            yield b"".join(left) + b"\n"
            for line in lines[1:-1]:
                yield line + b"\n"
            left, held = [lines[-1]], len(lines[-1])
    if held:
        yield b"".join(left)
