"""Currency conversion: prices in euros."""

from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc

from benchmarks.nexmark.query import Query, Tables
from rechannel import computed
from rechannel.dataflow.streams.stream import Stream


@dataclass(frozen=True)
class Converted:
    """Prices in another currency."""

    rate: float

    def __call__(self, price: pa.Array) -> pa.Array:
        """The rate times the price."""
        return pc.multiply(price.cast(pa.float64()), self.rate)


euros = Converted(0.908)


def make(rate: float = euros.rate) -> Query:
    """The query. rate: of the exchange."""
    sql = f"SELECT auction, bidder, {rate}D * price AS price, dateTime, extra FROM bid"

    def build(t: Tables) -> Stream:
        price = computed(Converted(rate), "price")
        return t.bid.select("auction", "bidder", price=price, dateTime="dateTime", extra="extra")

    return Query(name="q1", sql=sql, build=build, reads=("bid",), stateful=False)


QUERY = make()
