"""An answer is made once until a value that it is made of is another one."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from threading import Barrier

from rechannel.running.latest import Latest


def test_it_is_made_again_only_for_other_values():
    made, first, second = [], object(), object()
    latest = Latest()

    def ask(*values):
        return latest.of(lambda: made.append(values) or len(made), *values)

    assert [ask(first, None), ask(first, None), ask(second, None), ask(first, None)] == [1, 1, 2, 3]
    assert made == [(first, None), (second, None), (first, None)]


def test_those_who_ask_at_once_wait_for_one():
    made, latest, value, together = [], Latest(), object(), Barrier(4)

    def ask(_):
        together.wait()
        return latest.of(lambda: made.append(1) or len(made), value)

    with ThreadPoolExecutor(4) as pool:
        assert list(pool.map(ask, range(4))) == [1] * 4
    assert made == [1]
