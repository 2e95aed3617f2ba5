"""Which requests are new, repeated or refused."""

import pytest

from rechannel.errors import RefusedError
from rechannel.ingest.producers import Numbered, Producers, Round, Verdict
from rechannel.sources.ingest.format import Kept


def one(sequence, producer="p", digest=None):
    return Numbered(producer=producer, sequence=sequence, digest=digest or f"d{sequence}")


def known(**last):
    producers = Producers()
    producers.learn({name: Kept(sequence=n, digest=f"d{n}") for name, n in last.items()})
    return producers


def test_numbers_go_up_by_one():
    round_ = Round(known(p=4))
    assert [round_.judge(one(n)) for n in (4, 5, 5, 6, 1, 6)] == [
        Verdict.REPEATED,
        Verdict.NEW,
        Verdict.REPEATED,
        Verdict.NEW,
        Verdict.REPEATED,
        Verdict.REPEATED,
    ]
    assert round_.kept == {"p": Kept(sequence=6, digest="d6")}
    assert round_.producers.last("p").sequence == 4


def test_a_gap_is_refused_and_changes_nothing():
    round_ = Round(known(p=4))
    with pytest.raises(RefusedError, match="has sent 6 after 4: send 5 first"):
        round_.judge(one(6))
    assert round_.kept == {}
    assert round_.judge(one(5)) is Verdict.NEW


def test_an_unknown_producer_begins_with_1():
    round_ = Round(known(p=4))
    with pytest.raises(RefusedError, match="'q' is unknown, and its requests are numbered from 1"):
        round_.judge(one(2, "q"))
    assert round_.judge(one(1, "q")) is Verdict.NEW


def test_other_rows_under_the_last_number_are_refused():
    with pytest.raises(RefusedError, match="was kept with other rows"):
        Round(known(p=4)).judge(one(4, digest="other"))
    round_ = Round(known())
    round_.judge(one(1))
    with pytest.raises(RefusedError, match="was kept with other rows"):
        round_.judge(one(1, digest="other"))


def test_the_one_that_has_been_silent_for_longest_is_forgotten():
    producers = Producers(most=2)
    for name in ("a", "b", "a", "c"):
        producers.learn({name: Kept(sequence=1, digest="d")})
    assert [name for name, _ in producers.items()] == ["a", "c"]
    assert producers.last("b") is None
    assert len(producers) == 2


def test_servers_forget_the_same_ones_whatever_the_order_of_a_head():
    heads = [{"b": 1, "a": 1, "c": 1}, {"c": 1, "d": 1, "b": 1}]
    found = []
    for turned in (False, True):
        producers = Producers(most=3)
        for head in heads:
            names = sorted(head, reverse=turned)
            producers.learn({name: Kept(sequence=1, digest="d") for name in names})
        found.append([name for name, _ in producers.items()])
    assert found[0] == found[1]
