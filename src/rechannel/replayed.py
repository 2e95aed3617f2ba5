"""What a replay found: the types of `job.replay(...)` and `job.replay_dead_letters(...)`, exported by `rc.monitoring`.

Rows have the Python values that Arrow gives them, also in `to_dict()`: a timestamp is a `datetime`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from rechannel.model.facts import Facts
from rechannel.model.text import Text


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplayedRows(Facts):
    """Rows that one node has kept for sinks in one timestep: as committed, and as replayed."""

    timestep: int
    node: str
    sinks: tuple[str, ...]
    """Sinks that read them, directly or through DataFrame functions."""
    equal: int
    """Rows that both have. A row that occurs several times counts as often as it occurs in both."""
    missing: int
    """Rows that only the committed output has."""
    added: int
    """Rows that only the replay has."""
    missing_rows: tuple[Mapping[str, Any], ...] = ()
    """The first of them."""
    added_rows: tuple[Mapping[str, Any], ...] = ()

    @property
    def same(self) -> bool:
        """Whether both have the same rows, in any order."""
        return not self.missing and not self.added


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplayedState(Facts):
    """State of one operator after the last timestep of a replay: as committed, and as replayed."""

    operator: str
    keys: int
    """Keys whose state differs."""
    equal: int
    """Stored rows that both have."""
    missing: int
    """Stored rows that only the committed state has."""
    added: int
    """Stored rows that only the replay has."""
    missing_rows: tuple[Mapping[str, Any], ...] = ()
    """The first of them, with their columns as stored."""
    added_rows: tuple[Mapping[str, Any], ...] = ()

    @property
    def same(self) -> bool:
        """Whether both have the same rows."""
        return not self.missing and not self.added


@dataclass(frozen=True, slots=True, kw_only=True)
class Replay(Facts):
    """Some committed timesteps that were run again in a sandbox, and how the result differs.

    Its `str` is a table.
    """

    first: int
    last: int
    program: int
    """Version of the dataflow that the timesteps ran under."""
    other_logic: tuple[str, ...]
    """Nodes with other logic than the timesteps were committed with."""
    output: tuple[ReplayedRows, ...]
    """By timestep and node."""
    state: tuple[ReplayedState, ...]
    """By operator."""
    durations_ms: tuple[float, ...]
    """How long each timestep took, oldest first."""
    not_compared: tuple[str, ...] = ()
    """Sinks whose rows are not kept: they are written directly from a source."""

    @property
    def equal(self) -> bool:
        """Whether output and state are what was committed."""
        return all(part.same for part in self.output) and all(part.same for part in self.state)

    def __str__(self) -> str:
        return Text("\n".join(_lines(self)))


@dataclass(frozen=True, slots=True, kw_only=True)
class LettersOf(Facts):
    """Dead letters of one operator that are tried again."""

    operator: str
    rows: int
    errors: Mapping[str, int]
    """How many of them, by error."""
    refused: Mapping[str, int]
    """How many others cannot be tried again, by reason."""
    before: int
    """How many earlier calls have taken."""
    left: int
    """How many are left for another call."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplayedLetters(Facts):
    """Dead letters that are tried again, or would be."""

    done: bool
    """Whether they are input of the job now."""
    operators: tuple[LettersOf, ...]

    @property
    def rows(self) -> int:
        """How many there are."""
        return sum(each.rows for each in self.operators)

    def __str__(self) -> str:
        return "\n".join(_letters(self))

    def __repr__(self) -> str:
        return str(self)


_ERRORS_SHOWN = 10
"""Errors of an operator that are told apart."""
_ERROR_SHOWN = 160
"""Characters of each."""


def _letters(found: ReplayedLetters) -> Iterator[str]:
    for one in found.operators:
        letters = "1 dead letter" if one.rows == 1 else f"{one.rows:,} dead letters"
        now = f"{'is' if one.rows == 1 else 'are'} input of the job now"
        verb = now if found.done else "would be tried again"
        yield f"Operator {one.operator!r}: {letters} {verb}; {one.before:,} were before."
        most = sorted(one.errors.items(), key=lambda each: (-each[1], each[0]))
        for error, count in most[:_ERRORS_SHOWN]:
            yield f"  {count:>8,}  {_line(error)}"
        if len(most) > _ERRORS_SHOWN:
            rest = sum(count for _, count in most[_ERRORS_SHOWN:])
            yield f"  {rest:>8,}  with {len(most) - _ERRORS_SHOWN:,} other errors"
        for reason, count in sorted(one.refused.items()):
            yield f"  {count:>8,}  cannot be: {_line(reason)}"
        if one.left:
            yield f"  {one.left:>8,}  are left for another call"


def _line(text: str) -> str:
    line = " ".join(text.split())
    return line if len(line) <= _ERROR_SHOWN else f"{line[: _ERROR_SHOWN - 1]}…"


def _lines(found: Replay) -> Iterator[str]:
    many = found.last - found.first + 1
    span = f"Timestep {found.first}" if many == 1 else f"Timesteps {found.first} to {found.last}"
    logic = f"other logic in {', '.join(found.other_logic)}" if found.other_logic else "same logic"
    yield f"{span} again with {logic}: {'equal' if found.equal else 'different'}."
    yield ""
    header = ("timestep", "rows of", "for sinks", "equal", "missing", "added")
    body = [
        (part.timestep, part.node, ", ".join(part.sinks), part.equal, part.missing, part.added)
        for part in found.output
    ]
    yield from _table(header, body)
    if found.state:
        yield ""
        states = [(p.operator, p.keys, p.equal, p.missing, p.added) for p in found.state]
        yield from _table(("state of", "other keys", "equal", "missing", "added"), states)
    for name in found.not_compared:
        yield f"Not compared: sink {name}, which is written directly from a source."
    yield from _examples(found)


def _examples(found: Replay) -> Iterator[str]:
    for rows in found.output:
        what = f"timestep {rows.timestep}, {rows.node}"
        yield from _signed(what, rows.missing_rows, rows.added_rows)
    for state in found.state:
        yield from _signed(f"state of {state.operator}", state.missing_rows, state.added_rows)


def _signed(
    what: str, missing: Sequence[Mapping[str, Any]], added: Sequence[Mapping[str, Any]]
) -> Iterator[str]:
    if missing or added:
        yield ""
        yield f"{what} (- committed, + replayed):"
    yield from (f"- {_row(row)}" for row in missing)
    yield from (f"+ {_row(row)}" for row in added)


def _row(row: Mapping[str, Any]) -> str:
    return ", ".join(f"{name}={value!r}" for name, value in row.items())


def _table(header: Sequence[str], body: Sequence[Sequence[object]]) -> Iterator[str]:
    """Yield the lines of a table; columns of numbers are aligned right."""
    rows = [list(header), *([_cell(value) for value in row] for row in body)]
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    right = [
        bool(body) and all(isinstance(row[i], int) for row in body) for i in range(len(header))
    ]
    for row in rows:
        cells = [
            cell.rjust(width) if number else cell.ljust(width)
            for cell, width, number in zip(row, widths, right, strict=True)
        ]
        yield "  ".join(cells).rstrip()


def _cell(value: object) -> str:
    return f"{value:,}" if isinstance(value, int) else str(value)
