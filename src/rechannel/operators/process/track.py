"""`track`: the state of a key is whatever the user's function makes of its rows.

The operator of D-Streams (SOSP'13, section 3.3) in two flavours: `TrackLogic` calls a Python
function once per key, `TrackBatchesLogic` calls one for all keys at a time. The first touches
Python objects per key, because that is what was asked for; all conversions are by whole columns.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from itertools import repeat
from typing import Any

import numpy as np
import pyarrow as pa

from rechannel.errors import UserFunctionError
from rechannel.kernels.columnar.columns import Columns
from rechannel.kernels.columnar.groups import Groups
from rechannel.kernels.functions.dead_letters import divides, error_text, misfits, need_rows_fault
from rechannel.kernels.functions.python_rows import (
    LazyColumns,
    Rows,
    Unheld,
    check_tuples,
    column_of,
    columns_of,
    python_keys,
    python_rows,
    python_values,
    row_type,
)
from rechannel.kernels.functions.user_errors import function_name, user_error
from rechannel.kernels.protocol.bases import keys_between
from rechannel.kernels.protocol.logic import OperatorInput
from rechannel.model.buffers import IntArray, Mask
from rechannel.operators.process.track_frame import FrameAnswer, KeyedFrame, read_answer
from rechannel.operators.process.tracking import Tracking, Updated

Update = Callable[[Any, Any, Rows], Any]
"""(key, state or None, rows) -> new state, or None to drop the key."""

Initialise = Callable[[Any, Any], Any]
"""(key, first row) -> state."""

UpdateBatches = Callable[[KeyedFrame], FrameAnswer]
"""All changed keys of a task -> their new state columns."""

Expired = Callable[[Any, Any], Any]
"""(key, state) of a key whose timer went off -> the state to show, or None for nothing."""

ExpiredBatches = Callable[[KeyedFrame], Any]
"""All keys of a task whose timers went off, without rows -> the state columns to show, or None."""


@dataclass(frozen=True, eq=False, kw_only=True)
class TrackLogic(Tracking):
    """One Python function per key.

    A key without state is initialised by its first row, if there is an `init_state` function, and updated
    with its other rows, if there are any; without one, `update` gets None for the state.
    If it returns None, the key stays without state and its next row is offered. State
    is a scalar when it has one column, else a NamedTuple. Keys likewise: a scalar, or a tuple.
    """

    update: Update
    initialise: Initialise | None = None
    expired: Expired | None = None

    @property
    def ends(self) -> bool:
        """Whether a row is emitted then."""
        return self.expired is not None

    @property
    def state_type(self) -> Any:
        """The NamedTuple in which the function sees a state of several columns."""
        return row_type(tuple(self.fields.names), "State")

    def updated(self, arrivals: OperatorInput) -> Updated:
        """Call the user's function once per key. Raises UserFunctionError naming the key."""
        count = arrivals.groups.count
        failed: dict[int, str] = {}
        calls = self._calls(arrivals, failed)
        keys = calls.keys
        if failed and not divides(self):
            key, why = min(failed.items())
            msg = f"{function_name(self.update)} cannot be called for key {keys[key]!r}: {why}"
            raise UserFunctionError(msg)
        some = calls.without(failed) if failed else calls
        broken: dict[int, str] = {}
        if some.firsts is None or self.initialise is None:
            results = self._update(some, broken)
        else:
            results = self._begin(some, self.initialise, some.firsts, broken)
        if failed:
            where = np.delete(np.arange(count), list(failed))
            broken = {int(where[place]): why for place, why in broken.items()}
            results = _scatter(results, where, count)
        failed |= broken
        try:
            return self._made(results, keys, failed)
        except UserFunctionError:
            if not divides(self):
                raise

        def made(some: Sequence[int]) -> Updated:
            return self._made([results[i] for i in some], [keys[i] for i in some], {})

        unfit = misfits(range(count), made)
        for number in unfit:
            results[number] = None
        return self._made(results, keys, failed | unfit)

    def _calls(self, arrivals: OperatorInput, failed: dict[int, str]) -> _Calls:
        """What there is to call. failed: gets the keys for which Python does not have what they are called with."""
        present = self.present(arrivals)
        count = arrivals.groups.count
        keys = python_keys(arrivals.keys, self.key_schema.names, count, failed)
        begins = self.initialise is not None and not present.all()
        return _Calls(
            keys=keys,
            states=self._states(arrivals, present, failed),
            firsts=self._firsts(arrivals, present, failed) if begins else None,
            rows=LazyColumns(arrivals.values, tuple(self.value_schema.names)),
            starts=arrivals.groups.starts.tolist(),
            ends=arrivals.groups.ends.tolist(),
        )

    def _made(self, results: list[Any], keys: list[Any], failed: dict[int, str]) -> Updated:
        """States as columns; None where a key has none any more. Raises UserFunctionError."""
        gone = np.fromiter((r is None for r in results), np.bool_, len(results))
        kept = [r for r in results if r is not None] if gone.any() else results
        columns = self._columns(kept, keys, gone, self.update)
        return Updated(kept=columns, gone=gone, failed=failed)

    def _failed(
        self,
        function: Callable[..., Any],
        key: Any,
        error: Exception,
        failed: dict[int, str],
        at: int,
    ) -> None:
        """Note that the function failed for a key. Raises UserFunctionError where there are no dead letters."""
        if not divides(self) or isinstance(error, MemoryError):
            raise user_error(_call(function, key), error) from error
        failed[at] = error_text(error)

    def ended(self, keys: Columns, state: Columns) -> tuple[IntArray, Columns]:
        """Call the user's function once per key. Raises UserFunctionError naming the key."""
        if self.expired is None:
            return super().ended(keys, state)
        names = python_keys(keys, self.key_schema.names, len(state[0]))
        states = self._python_states(state)
        results: list[Any] = []
        try:
            for key, old in zip(names, states, strict=True):
                results.append(self.expired(key, old))
        except Exception as error:
            raise user_error(_call(self.expired, names[len(results)]), error) from error
        silent = np.fromiter((r is None for r in results), np.bool_, len(results))
        shown = [r for r in results if r is not None]
        return np.flatnonzero(~silent), self._columns(shown, names, silent, self.expired)

    def _states(self, arrivals: OperatorInput, present: Mask, failed: dict[int, str]) -> list[Any]:
        """Return the state of each key as a Python value, None if it has none. failed: as for `_calls`."""
        old = arrivals.old[: len(self.fields)]
        if present.all():
            return self._python_states(old, failed)
        where = np.flatnonzero(present)
        unheld: Unheld = {}
        known = self._python_states([column.take(pa.array(where)) for column in old], unheld)
        failed |= {int(where[place]): why for place, why in unheld.items()}
        return _scatter(known, where, len(present))

    def _firsts(self, arrivals: OperatorInput, present: Mask, failed: dict[int, str]) -> list[Any]:
        """First row of every key without state; None for the others. failed: as for `_calls`."""
        where = np.flatnonzero(~present)
        index = pa.array(arrivals.groups.starts[where])
        columns = [column.take(index) for column in arrivals.values]
        unheld: Unheld = {}
        names = tuple(self.value_schema.names)
        rows = python_rows(columns, names, len(where), unheld=unheld)
        failed |= {int(where[place]): why for place, why in unheld.items()}
        return _scatter(rows, where, len(present))

    def _python_states(self, columns: Columns, unheld: Unheld | None = None) -> list[Any]:
        names = tuple(self.fields.names)
        if len(columns) == 1:
            return python_values(columns[0], names[0], unheld)
        return python_rows(columns, names, len(columns[0]), "State", unheld)

    def _update(self, calls: _Calls, failed: dict[int, str]) -> list[Any]:
        update, results = self.update, list[Any]()
        rows = map(Rows, repeat(calls.rows), calls.starts, calls.ends)
        each = zip(calls.keys, calls.states, rows, strict=True)
        while len(results) < len(calls.keys):
            try:
                for key, state, mine in each:
                    results.append(update(key, state, mine))
            except Exception as error:
                self._failed(update, calls.keys[len(results)], error, failed, len(results))
                results.append(None)
        return results

    def _begin(
        self,
        calls: _Calls,
        initialise: Initialise,
        firsts: list[Any],
        failed: dict[int, str],
    ) -> list[Any]:
        """As `_update`, but the first row of a key without state makes its state."""
        update, rows, as_state = self.update, calls.rows, self._as_state
        results: list[Any] = []
        called: Callable[..., Any] = update
        each = zip(calls.keys, calls.states, firsts, calls.starts, calls.ends, strict=True)
        while len(results) < len(calls.keys):
            try:
                for key, old, first, begin, end in each:
                    state, start = old, begin
                    if state is None:
                        called = initialise
                        state, start = as_state(initialise(key, first), key), begin + 1
                        while state is None and start < end:
                            state = as_state(initialise(key, rows.at(start)), key)
                            start += 1
                    if start < end:
                        called = update
                        state = update(key, state, Rows(rows, start, end))
                    results.append(state)
            except Exception as error:
                self._failed(called, calls.keys[len(results)], error, failed, len(results))
                results.append(None)
        return results

    def _as_state(self, state: Any, key: Any) -> Any:
        """Return what `init_state` made, as `update` expects it."""
        if state is None or len(self.fields) == 1:
            return state
        if not isinstance(state, tuple | list) or len(state) != len(self.fields):
            what = f"the state that init_state made of key {key!r}"
            check_tuples([state], self.fields, lambda _: what)
        return self.state_type._make(state)

    def _columns(
        self, states: list[Any], keys: list[Any], dropped: Mask, function: Callable[..., Any]
    ) -> Columns:
        name = function_name(function)

        def what(row: int) -> str:
            return f"the state that {name} made of key {keys[np.flatnonzero(~dropped)[row]]!r}"

        if len(self.fields) == 1:
            return [column_of(states, self.fields.field(0), what)]
        check_tuples(states, self.fields, what)
        return columns_of(states, self.fields, what)


@dataclass(frozen=True, eq=False, kw_only=True)
class _Calls:
    """What the user's function is called with: key, state or None, and rows from start to end.

    firsts: first rows of the keys without state, None for the others; None = `init_state` is not called.
    """

    keys: list[Any]
    states: list[Any]
    firsts: list[Any] | None
    rows: LazyColumns
    starts: list[int]
    ends: list[int]

    def without(self, failed: Collection[int]) -> _Calls:
        """Those for other keys."""
        stay = [number for number in range(len(self.keys)) if number not in failed]

        def of(values: list[Any]) -> list[Any]:
            return [values[number] for number in stay]

        return _Calls(
            keys=of(self.keys),
            states=of(self.states),
            firsts=None if self.firsts is None else of(self.firsts),
            rows=self.rows,
            starts=of(self.starts),
            ends=of(self.ends),
        )


def _call(function: Callable[..., Any], key: Any) -> str:
    return f"{function_name(function)} for key {key!r}"


def _scatter(values: list[Any], where: IntArray, count: int) -> list[Any]:
    """A list of `count` with the values at the given places and None elsewhere."""
    spread: list[Any] = [None] * count
    for place, value in zip(where.tolist(), values, strict=True):
        spread[place] = value
    return spread


@dataclass(frozen=True, eq=False, kw_only=True)
class TrackBatchesLogic(Tracking):
    """One function for all changed keys of a task.

    Which keys share a call depends on the number of tasks and on the batch: the state of a key must
    follow from that key's own state and rows alone.
    """

    update: UpdateBatches
    expired: ExpiredBatches | None = None

    @property
    def ends(self) -> bool:
        """Whether a row is emitted then."""
        return self.expired is not None

    def updated(self, arrivals: OperatorInput) -> Updated:
        """Call the user's function once, where it has dead letters for halves of the keys if it fails.

        Raises UserFunctionError.
        """
        count = arrivals.groups.count
        if count == 0:
            return Updated(kept=self._nothing(), gone=np.zeros(0, dtype=np.bool_))
        if not divides(self):
            kept, gone = self._called(self.update, self._frame(arrivals))
            return Updated(kept=kept, gone=gone)
        pieces, failed = [self._nothing()], dict[int, str]()
        gone = np.ones(count, dtype=np.bool_)
        pending = [(0, count)]
        while pending:
            start, stop = pending.pop()
            some = arrivals if stop - start == count else keys_between(arrivals, start, stop)
            try:
                kept, gone[start:stop] = self._called(self.update, self._frame(some))
            except UserFunctionError as error:
                need_rows_fault(error, stop - start)
                if stop - start == 1:
                    failed[start] = error_text(error)
                    continue
                middle = (start + stop) // 2
                pending += [(middle, stop), (start, middle)]
                continue
            pieces.append(kept)
        whole = [pa.concat_arrays(parts) for parts in zip(*pieces, strict=True)]
        return Updated(kept=whole, gone=gone, failed=failed)

    def _frame(self, arrivals: OperatorInput) -> KeyedFrame:
        return KeyedFrame.of(
            keys=pa.RecordBatch.from_arrays(arrivals.keys, schema=self.key_schema),
            state=pa.RecordBatch.from_arrays(
                arrivals.old[: len(self.fields)], names=self.fields.names
            ),
            found=self.present(arrivals),
            rows=pa.RecordBatch.from_arrays(arrivals.values, schema=self.value_schema),
            groups=arrivals.groups,
        )

    def ended(self, keys: Columns, state: Columns) -> tuple[IntArray, Columns]:
        """Call the user's function once. Raises UserFunctionError."""
        if self.expired is None:
            return super().ended(keys, state)
        count = len(state[0])
        frame = KeyedFrame.of(
            keys=pa.RecordBatch.from_arrays(keys, schema=self.key_schema),
            state=pa.RecordBatch.from_arrays(state, names=self.fields.names),
            found=np.ones(count, dtype=np.bool_),
            rows=pa.RecordBatch.from_pylist([], schema=self.value_schema),
            groups=Groups(np.zeros(count, dtype=np.int64), 0),
        )
        columns, silent = self._called(self.expired, frame)
        return np.flatnonzero(~silent), columns

    def _nothing(self) -> Columns:
        return [pa.array([], field.type) for field in self.fields]

    def _called(self, function: ExpiredBatches, frame: KeyedFrame) -> tuple[Columns, Mask]:
        """What a function answers for the keys that stay, and which do not; None: none does."""
        name = function_name(function)
        try:
            answer = function(frame)
        except Exception as error:
            raise user_error(f"{name} for {len(frame)} keys", error) from error
        if answer is None and function is self.expired:
            return self._nothing(), np.ones(len(frame), dtype=np.bool_)
        columns, dropped = read_answer(answer, self.fields, len(frame), name)
        if not dropped.any():
            return columns, dropped
        stay = pa.array(np.flatnonzero(~dropped))
        return [column.take(stay) for column in columns], dropped
