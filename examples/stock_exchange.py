"""Match orders per symbol while trade moves between symbols: a controller balances, scales out and scales in.

Orders are matched by price, then time, in one book per symbol. They follow the shape of the Shanghai exchange's data
that Trisk used: a few symbols have most orders, which symbols these are changes every 20 seconds, and so does the rate
(once, twice and a quarter of it). A timestep has the orders of one second, and a task matches 100 orders per second;
what a task cannot match in time waits. The same orders are matched twice: with the controller and without.

From the root of the repository: python -m examples.stock_exchange

Prints:

    seconds    without   with
     0 to  5      0.54    0.54
     5 to 10      0.54    0.54
    10 to 15      0.53    0.53
    15 to 20      0.62    0.62
    20 to 25      1.46    0.97
    25 to 30      2.14    0.64
    30 to 35      2.87    0.61
    35 to 40      3.67    0.47
    40 to 45      0.99    0.13
    45 to 50      0.14    0.23
    50 to 55      0.15    0.25
    55 to 60      0.14    0.25
    second 24: rescale(operator='books', tasks=4)
    second 28: rebalance(operator='books', tolerance=0.05)
    second 32: rebalance(operator='books', tolerance=0.05)
    second 36: rebalance(operator='books', tolerance=0.05)
    second 44: rescale(operator='books', tasks=2)
    second 48: rescale(operator='books', tasks=1)
    4253 trades, equal
"""

import tempfile
from collections.abc import Iterator, Sequence
from math import ceil
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

import rechannel as rc
from rechannel.testing import Harness, script

SYMBOLS = 64
PHASE_SECONDS = 20
RATES = (1.0, 2.0, 0.25)
"""Orders per second, as multiples of `per_second`, by phase."""
DEPTH = 40
"""Orders that each side of a book keeps, the best ones."""
CAPACITY = 100
"""Orders that a task matches per second."""

ORDER = "symbol STRING, number BIGINT, buys BOOLEAN, price BIGINT, quantity BIGINT"
TRADE = "symbol STRING, buyer BIGINT, seller BIGINT, price BIGINT, quantity BIGINT"
BOOK = "bids ARRAY<ARRAY<BIGINT>>, asks ARRAY<ARRAY<BIGINT>>, trades ARRAY<ARRAY<BIGINT>>"

Orders = list[list[int]]
"""What is left of orders: price, number and quantity of each, the best one first."""


# The data -----------------------------------------------------------------------------------------


def orders_of(
    seconds: int, per_second: int, phase_seconds: int = PHASE_SECONDS
) -> Iterator[list[dict[str, Any]]]:
    """Yield the orders of each second. A symbol of rank r has a share like 1 / (r + 2); ranks change with the phase."""
    random = np.random.default_rng(7)
    shares = 1 / (np.arange(SYMBOLS) + 2)
    shares /= shares.sum()
    number = 0
    for second in range(seconds):
        phase = second // phase_seconds
        count = int(per_second * RATES[phase % len(RATES)])
        ranks = random.choice(SYMBOLS, size=count, p=shares)
        symbols = np.random.default_rng(phase).permutation(SYMBOLS)[ranks]
        prices = 1_000 + random.integers(-10, 11, size=count)
        quantities = 100 * random.integers(1, 10, size=count)
        buys = random.random(count) < 0.5
        columns = (symbols.tolist(), buys.tolist(), prices.tolist(), quantities.tolist())
        rows = []
        for symbol, side, price, quantity in zip(*columns, strict=True):
            number += 1
            rows.append(
                {
                    "symbol": f"6{symbol:05}",
                    "number": number,
                    "buys": side,
                    "price": price,
                    "quantity": quantity,
                }
            )
        yield rows


# The program --------------------------------------------------------------------------------------


def match(_symbol: str, state: Any, rows: rc.frames.Rows) -> tuple[Orders, Orders, Orders]:
    """Match the orders of a symbol in their order; returns both sides of its book, and the trades."""
    bids: Orders = [list(each) for each in state.bids] if state else []
    asks: Orders = [list(each) for each in state.asks] if state else []
    trades: Orders = []
    columns = (rows["number"], rows["buys"], rows["price"], rows["quantity"])
    for number, buys, price, ordered in zip(*columns, strict=True):
        quantity = ordered
        own, others, sign = (bids, asks, 1) if buys else (asks, bids, -1)
        while quantity and others and sign * others[0][0] <= sign * price:
            best = others[0]
            traded = min(quantity, best[2])
            pair = (number, best[1]) if buys else (best[1], number)
            trades.append([*pair, best[0], traded])
            quantity, best[2] = quantity - traded, best[2] - traded
            if not best[2]:
                others.pop(0)
        if quantity:
            own.append([price, number, quantity])
            own.sort(key=lambda each: (-sign * each[0], each[1]))
            del own[DEPTH:]
    return bids, asks, trades


def trades_of(book: Any) -> list[tuple[Any, ...]]:
    """Return the trades of a symbol in one timestep as rows."""
    return [(book.symbol, *trade) for trade in book.trades]


def program(source: Any, update: Any = match, session: Any = None, tasks: int = 2) -> Any:
    """Return the dataflow. update: matches the orders of a symbol. session: of Spark, if it runs there."""
    orders = rc.read(session).memory(source, name="orders")
    books = orders.key_by("symbol").track(update, state=BOOK, name="books", tasks=tasks, bins=256)
    return books.flat_map(trades_of, TRADE, name="trades").write.memory("out")


# The controller -----------------------------------------------------------------------------------


class Busy(rc.control.OperatorHandler):
    """Replies with the orders of all tasks, and those of the busiest one."""

    def on_complete(self, task: rc.control.TaskView) -> list[int]:
        """The orders of this task."""
        return [task.rows_in, task.rows_in]

    def merge(self, one: list[int], other: list[int]) -> list[int]:
        """Those of both."""
        return [one[0] + other[0], max(one[1], other[1])]


class Exchange(rc.control.Controller):
    """Keeps tasks busy for about half of their time, and evenly."""

    trigger = rc.control.every(timesteps=1)

    def __init__(self, operator: str, capacity: float = CAPACITY, most: int = 16) -> None:
        """capacity: orders that a task matches per timestep. most: tasks."""
        self.operator, self.capacity, self.most = operator, capacity, most

    def on_init(self) -> dict[str, Any]:
        """Nothing was measured yet."""
        return {"busiest": [], "recent": []}

    def on_begin(self, control: rc.control.Control[Any]) -> rc.control.Operation:
        """Ask how busy tasks are."""
        return rc.control.operation(Busy(), operators=[self.operator])

    def on_complete(self, control: rc.control.Control[Any], outcome: rc.control.Outcome) -> None:
        """Give the operator more or fewer tasks when all of them are too busy or idle, or even out its bins."""
        orders, busiest = outcome.replies[self.operator]
        recent = [*control.state["recent"], [orders, busiest]][-4:]
        control.state = {"busiest": [*control.state["busiest"], busiest], "recent": recent}
        if len(recent) < 4 or any(record.open for record in control.changes):
            return
        tasks = control.configuration.operators[self.operator].tasks
        orders, busiest = (sum(values) / len(recent) for values in zip(*recent, strict=True))
        used = orders / tasks / self.capacity
        wanted = min(self.most, max(1, ceil(orders / self.capacity / 0.5)))
        if (used > 0.75 or used < 0.25) and wanted != tasks:
            change: Any = rc.changes.rescale(self.operator, tasks=wanted)
        elif busiest > max(1.2 * orders / tasks, 0.6 * self.capacity):
            change = rc.changes.rebalance(self.operator, tolerance=0.05)
        else:
            return
        control.reconfigure(change, reason=f"tasks are busy for {used:.0%}, {busiest:.0f} at most")
        control.state = {**control.state, "recent": []}


# The comparison -----------------------------------------------------------------------------------


def latencies(busiest: Sequence[int]) -> list[float]:
    """Return, for each second, how long after its end its orders are matched. busiest: orders of the busiest task."""
    out: list[float] = []
    done = 0.0
    for second, orders in enumerate(busiest):
        done = max(done, second + 1) + orders / CAPACITY
        out.append(done - second - 1)
    return out


def run(
    seconds: int, per_second: int, *, controlled: bool, tasks: int = 2
) -> tuple[list[float], list[Any], Any]:
    """Match the orders; returns latencies by second, all trades by symbol, and what was changed."""
    source = script(ORDER)
    stream = Harness(program(source, tasks=tasks))
    exchange = rc.control.install(Exchange("books", most=8 * tasks), dry_run=not controlled)
    process = stream.start(controllers=[exchange])
    for rows in orders_of(seconds, per_second):
        source.push(rows)
        process.run()
    trades = pa.concat_tables(stream.outputs().values()).to_pylist()
    by_symbol = sorted((tuple(row.values()) for row in trades), key=lambda row: row[0])
    records = process.changes.coordination.records
    busiest = process.controllers.board.seat("exchange").state["busiest"]
    return latencies(busiest), by_symbol, records


def main(_folder: Path, seconds: int = 60, per_second: int = 100) -> None:
    """Match the same orders with the controller and without, and print latencies."""
    without, undisturbed, _ = run(seconds, per_second, controlled=False)
    controlled, trades, records = run(seconds, per_second, controlled=True)
    print("seconds    without   with")
    for begin in range(0, seconds, 5):
        here = slice(begin, begin + 5)
        both = f"{np.mean(without[here]):7.2f}{np.mean(controlled[here]):8.2f}"
        print(f"{begin:2} to {begin + 5:2}   {both}")
    for record in records:
        print(f"second {record.last_timestep}: {record.change}")
    same = "equal" if trades == undisturbed else "differ"
    print(f"{len(trades)} trades, {same}")


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as name:
        main(Path(name))
