from __future__ import annotations

from rechannel.state.cache.open_files import IDLE_S, Lru


def alive(*_):
    return False


def test_the_least_recently_used_goes_first():
    cache = Lru(2)
    cache.put("a", 1, alive)
    cache.put("b", 2, alive)
    assert cache.get("a") == 1
    cache.put("c", 3, alive)
    assert (cache.get("a"), cache.get("b"), cache.get("c")) == (1, None, 3)
    assert len(cache) == 2


def test_a_replaced_entry_takes_no_further_room():
    cache = Lru(2)
    cache.put("a", 1, alive)
    cache.put("b", 2, alive)
    cache.put("a", 9, alive)
    assert (cache.get("a"), cache.get("b")) == (9, 2)


def test_the_dead_are_dropped_now_and_then():
    cache = Lru(1000)
    for number in range(64):
        cache.put(number, "x", lambda key, _: key % 2 == 0)
    assert [n for n in range(64) if cache.get(n)] == list(range(1, 64, 2))


def test_discard_does_not_mind_absence():
    cache = Lru(2)
    cache.discard("a")
    cache.put("a", 1, alive)
    cache.discard("a")
    assert cache.get("a") is None


def test_what_nobody_has_used_for_minutes_goes_with_the_next_insertion():
    now = [0.0]
    cache = Lru(1000, clock=lambda: now[0])
    for key in range(80):
        cache.put(key, str(key), alive)
    now[0] = IDLE_S - 1
    assert cache.get(3) == "3"
    now[0] = IDLE_S + 1
    cache.put("new", "new", alive)
    assert len(cache) == 2
    assert [cache.get(3), cache.get("new"), cache.get(4)] == ["3", "new", None]
