"""What both flavours of `track` share: schemas, the timeout, and how an answer becomes `OperatorOutput`.

State of a key: the user's columns and, when there is a timeout, `_seen`: the time (Unix
milliseconds) of the last timestep that brought rows for the key. A key whose `_seen` is longer ago
than the timeout counts as absent. Nothing
happens at that moment: every look at the state skips it (`live`), and merging drops it.

With a timer (`timers`) it is `_until` instead, when the timer goes off; the key is then shown
once more, if there is a function for that, and absent from then on.

Where the function fails for a key, with `on_error="dead_letter"`, the key's rows of this timestep are dead letters; the
key is otherwise as if they had not come: its state stays, its timer is not set anew.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Self

import numpy as np
import pyarrow as pa

from rechannel.errors import DataflowError
from rechannel.kernels.columnar.columns import Columns
from rechannel.kernels.columnar.sorting import from_numpy, interleaved, take
from rechannel.kernels.columnar.sparse import SEEN, spread
from rechannel.kernels.functions.dead_letters import Letters, MayDivide, offsets_of, row_texts
from rechannel.kernels.protocol.bases import EveryRow, as_they_came
from rechannel.kernels.protocol.capabilities import (
    Emitted,
    Expiring,
    Grouped,
    LateTelling,
    Revising,
    Succeeded,
    Timed,
    TimingOut,
)
from rechannel.kernels.protocol.logic import Dead, OperatorInput, OperatorOutput
from rechannel.model.buffers import IntArray, Mask
from rechannel.model.eventtime import NEVER, Clock
from rechannel.model.hashspace import HashArray
from rechannel.operators.process.timers import UNTIL, Timely, Timer, untils_of


@dataclass(frozen=True, eq=False, kw_only=True)
class Updated:
    """What the user's function made of some keys.

    kept: state columns of the keys that stay. gone: shape (keys,), all others: those that end, and those in failed.
    failed: what was wrong, by key, where the function failed.
    """

    kept: Columns
    gone: Mask
    failed: Mapping[int, str] = field(default_factory=dict)

    @property
    def lost(self) -> IntArray:
        """Return the positions of keys for which the function failed, ascending."""
        return np.array(sorted(self.failed), dtype=np.int64)


@dataclass(frozen=True, eq=False, kw_only=True)
class Tracking(
    EveryRow,
    Expiring,
    Timed,
    Grouped,
    LateTelling,
    Succeeded,
    TimingOut,
    Revising,
    MayDivide,
):
    """Schemas and timeout of one `track`."""

    key_schema: pa.Schema
    value_schema: pa.Schema
    fields: pa.Schema
    """The user's state columns."""
    timeout_ms: int | None = None
    """Time without rows, by the time of timesteps, after which a key is absent; None = never."""
    timer: Timer | None = None
    """How timers are set, instead of a timeout that emits nothing."""
    keep_late: bool = False
    """Late rows are read downstream, so all columns travel."""
    looks_for_ends: bool = False
    """Keys that end are looked for, whether or not a row is emitted then."""

    def __post_init__(self) -> None:
        """Check that names of the state differ from those of keys and of columns that Rechannel adds."""
        if len(self.fields) == 0:
            msg = "the state of track needs at least one column"
            raise DataflowError(msg)
        for name in self.fields.names:
            if name in (SEEN, UNTIL.name):
                msg = f"state column {name!r}: track() has a column of that name in its state; use another name"
                raise DataflowError(msg)
            if name in self.key_schema.names:
                msg = f"state column {name!r} is also a key column; the output would have it twice"
                raise DataflowError(msg)
        if self.timeout_ms is not None and self.timeout_ms <= 0:
            msg = f"a timeout must be positive, not {self.timeout_ms} ms"
            raise DataflowError(msg)

    @property
    def state_kind(self) -> str:
        """What the user keeps of a key."""
        return "track"

    @property
    def keeps_timers(self) -> bool:
        """Whether keys end by timers of their own."""
        return self.timer is not None

    @property
    def state_schema(self) -> pa.Schema:
        """The user's columns and the time of the last rows where there is a timeout, or the timer."""
        if self.timer is not None:
            return self.fields.append(UNTIL)
        if self.timeout_ms is None:
            return self.fields
        return self.fields.append(pa.field(SEEN, pa.int64(), False))

    @property
    def output_schema(self) -> pa.Schema:
        """Keys and the user's state columns."""
        return pa.schema([*self.key_schema, *self.fields])

    @property
    def row_schema(self) -> pa.Schema:
        """The stream's own columns, of late rows."""
        if self.timer is None:
            return pa.schema([*self.key_schema, *self.value_schema])
        return self.timer.row_schema

    def live(self, keys: Columns, state: Columns, clock: Clock) -> Mask | None:
        """State rows whose timeout has not passed; None when there is no timeout."""
        if self.timer is not None:
            running: Mask = untils_of(state) > clock.watermark
            return running
        if self.timeout_ms is None:
            return None
        seen = state[-1].fill_null(0).to_numpy(zero_copy_only=False)
        now_ms = clock.stream_ms
        if self.looks_for_ends and clock.watermark != NEVER:  # of the timestep that is asked about
            now_ms = clock.watermark // 1_000
        alive: Mask = now_ms - seen <= self.timeout_ms
        return alive

    def finish(self, keys: Columns, state: Columns) -> pa.RecordBatch:
        """Keys and the user's columns, without the time of the last rows."""
        columns = [*keys, *state[: len(self.fields)]]
        return pa.RecordBatch.from_arrays(columns, schema=self.output_schema)

    # A changelog ------------------------------------------------------------------------------------

    @property
    def table_key(self) -> int:
        """The keys."""
        return len(self.key_schema)

    @property
    def times_out(self) -> bool:
        """Whether keys end by a timeout."""
        return self.timeout_ms is not None

    @property
    def ends_noted(self) -> bool:
        """Whether a changelog of ends is read, and the state has no timers."""
        return self.looks_for_ends and self.timer is None

    def looking_for_ends(self) -> Self:
        """Return the logic that looks for keys that end."""
        return replace(self, looks_for_ends=self.times_out)

    # Timers -----------------------------------------------------------------------------------------

    @property
    def ends(self) -> bool:
        """Whether something is shown when a timer goes off."""
        return False

    def updated(self, arrivals: OperatorInput) -> Updated:
        """Call the user's function. Raises UserFunctionError."""
        raise NotImplementedError

    def ended(self, keys: Columns, state: Columns) -> tuple[IntArray, Columns]:
        """Which of some keys whose timers went off are shown, and their state columns then."""
        raise NotImplementedError

    def timer_of(self, keys: Columns, state: Columns) -> IntArray | None:
        """Return the event time of each key's timer."""
        if self.timer is not None:
            return untils_of(state)
        if not self.looks_for_ends or self.timeout_ms is None:
            return None
        seen = state[-1].fill_null(0).to_numpy(zero_copy_only=False)
        untils: IntArray = (seen + self.timeout_ms + 1) * 1_000
        return untils

    def due_range(self, clock: Clock) -> tuple[int, int] | None:
        """Return timers that went off, if a row is emitted then, or if a changelog has the end of the key."""
        if self.timer is None and clock.before == NEVER:
            return None  # what ended earlier is not known, and is in no changelog
        return (clock.before, clock.watermark) if self.ends or self.looks_for_ends else None

    def together(self, keys: Columns, state: Columns) -> Mask | None:
        """A timer that seems to have gone off may have been set anew: every key is looked up."""
        if self.timer is None and not self.looks_for_ends:
            return None
        return np.ones(len(keys[0]), dtype=np.bool_)

    @property
    def lag_us(self) -> int:
        """What is shown when a timer goes off may say when the last row of the key was."""
        return self.timer.timeout_us if self.timer is not None and self.ends else 0

    def fire(self, keys: Columns, state: Columns, hashes: HashArray, clock: Clock) -> Emitted:
        """What is shown of keys without rows whose timers went off. Raises UserFunctionError."""
        over = np.empty(0, dtype=np.int64)
        if self.ends:
            over = np.flatnonzero(untils_of(state) <= clock.watermark)
        return self._ended(take(keys, over), take(state, over), hashes[over])

    def apply(self, arrivals: OperatorInput) -> OperatorOutput:
        """Call the user's functions: for rows and, of keys that had some, for timers that went off."""
        if self.timer is None:
            return self.answer(arrivals, self.updated(arrivals))
        columns = self.key_schema, self.value_schema
        came = self.timer.timely(arrivals, columns)
        made = self.updated(came.arrivals)
        shown = self._shown(came.arrivals, made.kept, made.gone)
        state, there = self._after(arrivals, came, made)
        over = np.flatnonzero(there & (untils_of(state) <= arrivals.clock.watermark))
        if len(over) and self.ends:
            some = take(arrivals.keys, over), take(state, over)
            shown = interleaved(shown, self._ended(*some, arrivals.hashes[over]))
        gone = np.zeros(len(there), dtype=np.bool_)
        gone[came.keys[made.gone]] = True
        gone[came.keys[made.lost]] = False
        gone[over] = True
        untouched = ~gone
        untouched[np.delete(came.keys, made.lost)] = False
        return OperatorOutput(
            state=[*state[:-1], state[-1].fill_null(arrivals.clock.watermark)],
            dropped=gone if gone.any() else None,
            output=shown[0],
            output_hashes=shown[1],
            untouched=untouched if untouched.any() else None,
            late=self.timer.late(arrivals, came.late, columns, keep=self.keep_late),
            dead=self._dead(came.arrivals, made),
        )

    def _after(self, arrivals: OperatorInput, came: Timely, made: Updated) -> tuple[Columns, Mask]:
        """Return the state of all keys after the rows, with their timers, and which keys have state."""
        count, stay = arrivals.groups.count, came.keys[~made.gone]
        there = arrivals.found.copy()
        there[np.delete(came.keys, made.lost)] = False
        there[stay] = True
        place = np.arange(count)
        place[stay] = count + np.arange(len(stay))
        index = pa.array(place, mask=~there)
        fresh = [*made.kept, from_numpy(came.untils[~made.gone], UNTIL.type)]
        both = zip(arrivals.old, fresh, strict=True)
        return [pa.concat_arrays(pair).take(index) for pair in both], there

    def _ended(self, keys: Columns, state: Columns, hashes: HashArray) -> Emitted:
        """What is shown of keys whose timers went off."""
        chosen, columns = np.empty(0, dtype=np.int64), [pa.array([], f.type) for f in self.fields]
        if len(hashes):
            chosen, columns = self.ended(keys, state[: len(self.fields)])
        rows = [*take(keys, chosen), *columns]
        return pa.RecordBatch.from_arrays(rows, schema=self.output_schema), hashes[chosen]

    # State and output -------------------------------------------------------------------------------

    def present(self, arrivals: OperatorInput) -> Mask:
        """Which keys have a state that still counts. Shape (keys,)."""
        if self.timer is not None:  # as of the timestep before: rows come first
            return arrivals.found
        alive = self.live(arrivals.keys, arrivals.old, arrivals.clock)
        return arrivals.found if alive is None else arrivals.found & alive

    def answer(self, arrivals: OperatorInput, made: Updated) -> OperatorOutput:
        """New state and output, from what was made of the keys."""
        output, hashes = self._shown(arrivals, made.kept, made.gone)
        state, dropped, untouched = made.kept, made.gone, None
        if dropped.any():
            stay = np.flatnonzero(~dropped)
            state = [spread(column, stay, len(dropped)) for column in made.kept]
        if self.timeout_ms is not None:
            now = np.full(len(dropped), arrivals.clock.stream_ms, dtype=np.int64)
            if self.looks_for_ends:  # nothing waits for the end of a key that has ended
                now[dropped] -= self.timeout_ms + 1
            state = [*state, pa.array(now)]
        if made.failed:
            untouched = np.zeros(len(dropped), dtype=np.bool_)
            untouched[made.lost] = True
            dropped = dropped & ~untouched
        return OperatorOutput(
            state=state,
            dropped=dropped if dropped.any() else None,
            output=output,
            output_hashes=hashes,
            untouched=untouched,
            dead=self._dead(arrivals, made),
        )

    def _dead(self, arrivals: OperatorInput, made: Updated) -> Dead | None:
        """Rows of the keys for which the function failed."""
        if not made.failed:
            return None
        rows = np.flatnonzero(np.isin(arrivals.groups.ids, made.lost))
        owners = arrivals.groups.ids[rows]
        columns = self.key_schema, self.value_schema
        came = as_they_came(arrivals, rows, owners, columns, self.row_schema)
        letters = Letters(
            errors=[made.failed[key] for key in owners.tolist()],
            rows=row_texts(came),
            offsets=offsets_of(came),
        )
        return Dead(letters=letters, hashes=arrivals.hashes[owners])

    def _shown(self, arrivals: OperatorInput, kept: Columns, dropped: Mask) -> Emitted:
        """Keys that were not dropped, with their state."""
        keys, hashes = arrivals.keys, arrivals.hashes
        if dropped.any():
            stay = np.flatnonzero(~dropped)
            keys, hashes = [key.take(pa.array(stay)) for key in keys], hashes[stay]
        return pa.RecordBatch.from_arrays([*keys, *kept], schema=self.output_schema), hashes
