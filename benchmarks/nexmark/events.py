"""The events of NEXMark: rows are a function of their number, and of nothing else.

After the public generator (github.com/nexmark/nexmark, ``NexmarkConfig``, ``*Generator``): of 50 events one is a
person, three are auctions, 46 are bids; ids, hot auctions, sellers and bidders, prices, lengths of auctions, channels
and the distance between events are as there. What differs:

- Random numbers come from a hash of the event's number, not from a generator with a state. So any part of the stream
  can be made on its own, and a whole column at a time.
- Persons, auctions and bids are three sources. The n-th bid is the same event as in one stream of all three.
- Texts (names, descriptions, `extra`) are drawn from pools of 1,000 random texts of the length that they have there.
- `jitter_ms`: how much earlier an event's time is than its place in the stream says, at most. 0 = in order, which is
  the public default.

The rate is 10,000 events per second of event time, as there, by default.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache

import numpy as np
import pyarrow as pa

from benchmarks.draws import Numbers, below, draw

PERSONS, AUCTIONS, BIDS = 1, 3, 46
EVENTS = PERSONS + AUCTIONS + BIDS
FIRST_PERSON, FIRST_AUCTION, FIRST_CATEGORY = 1000, 1000, 10
CATEGORIES = 5
HOT_RATIO = 100
HOT_AUCTIONS, HOT_SELLERS, HOT_BIDDERS, HOT_CHANNELS = 2, 4, 4, 2
ACTIVE_PEOPLE, IN_FLIGHT = 1000, 100
PERSON_LEAD, AUCTION_LEAD = 10, 10
BASE_MS = 1_436_918_400_000
"""2015-07-15T00:00:00Z, when the public generator begins."""
POOL = 1000
CHANNELS = 10_000

TIME = pa.timestamp("us", "UTC")
STATES = ("AZ", "CA", "ID", "OR", "WA", "WY")
CITIES = (
    "Phoenix",
    "Los Angeles",
    "San Francisco",
    "Boise",
    "Portland",
    "Bend",
    "Redmond",
    "Seattle",
    "Kent",
    "Cheyenne",
)
HOT_NAMES = ("Google", "Facebook", "Baidu", "Apple")

SCHEMAS: Mapping[str, str] = {
    "person": "id BIGINT, name STRING, email STRING, card STRING, city STRING, state STRING, dateTime TIMESTAMP,"
    " extra STRING",
    "auction": "id BIGINT, item STRING, description STRING, initialBid BIGINT, reserve BIGINT, dateTime TIMESTAMP,"
    " expires TIMESTAMP, seller BIGINT, category BIGINT, extra STRING",
    "bid": "auction BIGINT, bidder BIGINT, price BIGINT, channel STRING, url STRING, dateTime TIMESTAMP,"
    " extra STRING",
}
PER_EPOCH: Mapping[str, int] = {"person": PERSONS, "auction": AUCTIONS, "bid": BIDS}


@dataclass(frozen=True, kw_only=True)
class Events:
    """The stream. rate: events per second of event time. jitter_ms: see the module.

    active_people, in_flight: people who sell and bid, and auctions that are bid on. hot: whether some of them have far
    more events than others. All three as in the public generator, where these are settings too.
    """

    rate: int = 10_000
    jitter_ms: int = 0
    active_people: int = ACTIVE_PEOPLE
    in_flight: int = IN_FLIGHT
    hot: bool = True

    def source(self, kind: str) -> Callable[[int, int], pa.RecordBatch]:
        """(start, stop) -> rows of a kind, by their number among those of the kind."""
        makers = {"person": self.persons, "auction": self.auctions, "bid": self.bids}
        return makers[kind]

    def persons(self, start: int, stop: int) -> pa.RecordBatch:
        """People number start to stop."""
        event = np.arange(start, stop, dtype=np.int64) * EVENTS
        return _batch(
            "person",
            id=_numbers(_last_person(event) + FIRST_PERSON),
            name=_text(event, 1, 12),
            email=_text(event, 2, 19),
            card=_text(event, 3, 19),
            city=_pick(event, 4, CITIES),
            state=_pick(event, 5, STATES),
            dateTime=self._time(event),
            extra=_text(event, 6, 100),
        )

    def auctions(self, start: int, stop: int) -> pa.RecordBatch:
        """Auctions number start to stop."""
        number = np.arange(start, stop, dtype=np.int64)
        event = number // AUCTIONS * EVENTS + PERSONS + number % AUCTIONS
        time = self._ms(event)
        first = _price(event, 11)
        seller = self._or_hot(
            event,
            12,
            HOT_SELLERS,
            _last_person(event) // HOT_RATIO * HOT_RATIO,
            self._person(event, 13),
        )
        horizon = self.in_flight * EVENTS // AUCTIONS * 1000 // self.rate
        length = 1 + below(event, 14, max(1, 2 * horizon))
        return _batch(
            "auction",
            id=_numbers(_last_auction(event) + FIRST_AUCTION),
            item=_text(event, 15, 20),
            description=_text(event, 16, 100),
            initialBid=_numbers(first),
            reserve=_numbers(first + _price(event, 17)),
            dateTime=_times(time),
            expires=_times(time + length),
            seller=_numbers(seller + FIRST_PERSON),
            category=_numbers(below(event, 18, CATEGORIES) + FIRST_CATEGORY),
            extra=_text(event, 19, 200),
        )

    def bids(self, start: int, stop: int) -> pa.RecordBatch:
        """Bids number start to stop."""
        number = np.arange(start, stop, dtype=np.int64)
        event = number // BIDS * EVENTS + PERSONS + AUCTIONS + number % BIDS
        last_auction = _last_auction(event) // HOT_RATIO * HOT_RATIO
        auction = self._or_hot(event, 21, HOT_AUCTIONS, last_auction, self._auction(event, 22))
        last_person = _last_person(event) // HOT_RATIO * HOT_RATIO
        bidder = self._or_hot(event, 23, HOT_BIDDERS, last_person + 1, self._person(event, 24))
        popular = below(event, 25, HOT_CHANNELS) > 0
        channel = np.where(popular, CHANNELS + below(event, 26, 4), below(event, 27, CHANNELS))
        names, urls = _channels()
        return _batch(
            "bid",
            auction=_numbers(auction + FIRST_AUCTION),
            bidder=_numbers(bidder + FIRST_PERSON),
            price=_numbers(_price(event, 28)),
            channel=names.take(pa.array(channel)),
            url=urls.take(pa.array(channel)),
            dateTime=self._time(event),
            extra=_text(event, 29, 40),
        )

    def _or_hot(
        self, event: Numbers, stream: int, ratio: int, hot: Numbers, other: Numbers
    ) -> Numbers:
        """All but one of `ratio` events have the hot number, if there are hot ones."""
        return np.where(below(event, stream, ratio) > 0, hot, other) if self.hot else other

    def _person(self, event: Numbers, stream: int) -> Numbers:
        """One of the people who are active, or will be soon."""
        people = _last_person(event) + 1
        active = np.minimum(people, self.active_people)
        person: Numbers = people - active + below(event, stream, active + PERSON_LEAD)
        return person

    def _auction(self, event: Numbers, stream: int) -> Numbers:
        """One of the auctions that are open, or will be soon."""
        last = _last_auction(event)
        first = np.maximum(last - self.in_flight, 0)
        auction: Numbers = first + below(event, stream, last - first + 1 + AUCTION_LEAD)
        return auction

    def _ms(self, event: Numbers) -> Numbers:
        early = below(event, 31, self.jitter_ms + 1) if self.jitter_ms else 0
        ms: Numbers = BASE_MS + event * 1000 // self.rate - early
        return ms

    def _time(self, event: Numbers) -> pa.Array:
        return _times(self._ms(event))


def _price(event: Numbers, stream: int) -> Numbers:
    """Round(10 ^ (6 u) * 100), u in [0, 1)."""
    u = (draw(event, stream) >> np.uint64(11)).astype(np.float64) * 2.0**-53
    prices: Numbers = np.rint(np.exp(u * (6 * np.log(10))) * 100).astype(np.int64)
    return prices


def _last_person(event: Numbers) -> Numbers:
    """The person that came last, as of an event."""
    last: Numbers = event // EVENTS * PERSONS + np.minimum(event % EVENTS, PERSONS - 1)
    return last


def _last_auction(event: Numbers) -> Numbers:
    """The auction that came last, as of an event."""
    epoch, offset = event // EVENTS, event % EVENTS
    before = offset < PERSONS
    offset = np.where(before, AUCTIONS - 1, np.minimum(offset - PERSONS, AUCTIONS - 1))
    last: Numbers = (epoch - before) * AUCTIONS + offset
    return np.maximum(last, 0)


def _batch(kind: str, **columns: pa.Array) -> pa.RecordBatch:
    return pa.RecordBatch.from_arrays(list(columns.values()), names=list(columns))


def _numbers(values: Numbers) -> pa.Array:
    return pa.array(values, pa.int64())


def _times(ms: Numbers) -> pa.Array:
    return pa.array(ms * 1000, pa.int64()).cast(TIME)


def _text(event: Numbers, stream: int, length: int) -> pa.Array:
    return _pool(length).take(pa.array(below(event, stream, POOL)))


def _pick(event: Numbers, stream: int, words: tuple[str, ...]) -> pa.Array:
    return pa.array(words).take(pa.array(below(event, stream, len(words))))


@cache
def _pool(length: int) -> pa.Array:
    """Random lower-case texts."""
    letters = below(np.arange(POOL * length), 1_000 + length, 26) + ord("a")
    text = letters.astype(np.uint8).tobytes().decode()
    return pa.array([text[i : i + length] for i in range(0, len(text), length)])


@cache
def _channels() -> tuple[pa.Array, pa.Array]:
    """Names and addresses of all channels; the four popular ones are the last ones."""
    words = _pool(5).to_pylist()
    number = np.arange(CHANNELS + len(HOT_NAMES))
    parts = [[words[i] for i in below(number, 41 + k, POOL)] for k in range(3)]
    known = below(number, 44, 10) > 0
    ids = below(number, 45, 1 << 31)
    urls = [
        f"https://www.nexmark.com/{a}/{b}/{c}/item.htm?query=1"
        + (f"&channel_id={i}" if has else "")
        for a, b, c, i, has in zip(*parts, ids.tolist(), known.tolist(), strict=True)
    ]
    names = [*(f"channel-{i}" for i in range(CHANNELS)), *HOT_NAMES]
    return pa.array(names), pa.array(urls)
