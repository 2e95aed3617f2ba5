"""Queries of NEXMark in Flink's SQL, as the public suite has them (github.com/nexmark/nexmark, ``nexmark-flink``).

What differs: the letters that q14 counts are counted by built-in functions, not by one of the suite's own, and q10 does
not write files, as on the other sides. Flink's SQL cannot say q6 (an OVER aggregate of rows that change), and its files
cannot be looked up since 2.0, so there is no q13.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

COLUMNS: Mapping[str, str] = {
    "person": "id BIGINT, name STRING, email STRING, card STRING, city STRING, state STRING, `dateTime` {time},"
    " extra STRING",
    "auction": "id BIGINT, item STRING, description STRING, initialBid BIGINT, reserve BIGINT, `dateTime` {time},"
    " expires {time}, seller BIGINT, category BIGINT, extra STRING",
    "bid": "auction BIGINT, bidder BIGINT, price BIGINT, channel STRING, url STRING, `dateTime` {time}, extra STRING",
}
TIME = "TIMESTAMP(3)"

DAY = "DATE_FORMAT(`dateTime`, 'yyyy-MM-dd')"
MINUTE = "DATE_FORMAT(`dateTime`, 'HH:mm')"
LOW, MIDDLE, HIGH = "price < 10000", "price >= 10000 AND price < 1000000", "price >= 1000000"


def tumbling(kind: str, of: str = "`dateTime`") -> str:
    """Rows of a table with windows of 10 seconds."""
    return f"TABLE(TUMBLE(TABLE {kind}, DESCRIPTOR({of}), INTERVAL '10' SECOND))"


def hopping(kind: str) -> str:
    """Rows of a table with windows of 10 seconds that begin every 2 seconds."""
    return f"TABLE(HOP(TABLE {kind}, DESCRIPTOR(`dateTime`), INTERVAL '2' SECOND, INTERVAL '10' SECOND))"


def counts(what: str, name: str) -> str:
    """How many there are in all, and by price."""
    ranked = (
        f"COUNT({what}) FILTER (WHERE {where}) AS rank{rank}_{name}"
        for rank, where in enumerate((LOW, MIDDLE, HIGH), 1)
    )
    return ", ".join((f"COUNT({what}) AS total_{name}", *ranked))


STATISTICS = ", ".join(
    (
        counts("*", "bids"),
        counts("DISTINCT bidder", "bidders"),
        counts("DISTINCT auction", "auctions"),
    )
)
BIDS_PER_WINDOW = (
    f"SELECT auction, COUNT(*) AS num, window_start AS starttime, window_end AS endtime FROM {hopping('bid')}"
    " GROUP BY auction, window_start, window_end"
)
CHANNEL_ID = "REGEXP_EXTRACT(url, '(&|^)channel_id=([^&]*)', 2)"

QUERIES: Mapping[str, str] = {
    "q0": "SELECT auction, bidder, price, `dateTime`, extra FROM bid",
    "q1": "SELECT auction, bidder, 0.908 * price AS price, `dateTime`, extra FROM bid",
    "q2": "SELECT auction, price FROM bid WHERE MOD(auction, 123) = 0",
    "q3": "SELECT P.name, P.city, P.state, A.id FROM auction A JOIN person P ON A.seller = P.id"
    " WHERE A.category = 10 AND P.state IN ('OR', 'ID', 'CA')",
    "q4": "SELECT category, AVG(final) AS price FROM ("
    " SELECT MAX(B.price) AS final, A.category FROM auction A, bid B"
    " WHERE A.id = B.auction AND B.`dateTime` BETWEEN A.`dateTime` AND A.expires GROUP BY A.id, A.category"
    ") GROUP BY category",
    "q5": f"SELECT C.auction, C.num FROM ({BIDS_PER_WINDOW}) C JOIN ("
    f" SELECT MAX(num) AS most, starttime, endtime FROM ({BIDS_PER_WINDOW}) GROUP BY starttime, endtime"
    ") M ON C.starttime = M.starttime AND C.endtime = M.endtime AND C.num >= M.most",
    "q7": "SELECT B.auction, B.price, B.bidder, B.`dateTime`, B.extra FROM bid B JOIN ("
    f" SELECT MAX(price) AS most, window_end AS endtime FROM {tumbling('bid')} GROUP BY window_start, window_end"
    ") M ON B.price = M.most WHERE B.`dateTime` BETWEEN M.endtime - INTERVAL '10' SECOND AND M.endtime",
    "q8": "SELECT P.id, P.name, P.starttime FROM ("
    f" SELECT id, name, window_start AS starttime, window_end AS endtime FROM {tumbling('person')}"
    " GROUP BY id, name, window_start, window_end) P JOIN ("
    f" SELECT seller, window_start AS starttime, window_end AS endtime FROM {tumbling('auction')}"
    " GROUP BY seller, window_start, window_end"
    ") A ON P.id = A.seller AND P.starttime = A.starttime AND P.endtime = A.endtime",
    "q9": "SELECT id, item, description, initialBid, reserve, `dateTime`, expires, seller, category, extra, auction,"
    " bidder, price, bid_time, bid_extra FROM ("
    " SELECT A.*, B.auction, B.bidder, B.price, B.`dateTime` AS bid_time, B.extra AS bid_extra,"
    " ROW_NUMBER() OVER (PARTITION BY A.id ORDER BY B.price DESC, B.`dateTime` ASC) AS place"
    " FROM auction A, bid B WHERE A.id = B.auction AND B.`dateTime` BETWEEN A.`dateTime` AND A.expires"
    ") WHERE place <= 1",
    "q10": f"SELECT auction, bidder, price, `dateTime`, extra, {DAY} AS dt, {MINUTE} AS hm FROM bid",
    "q11": "SELECT bidder, COUNT(*) AS bids, SESSION_START(`dateTime`, INTERVAL '10' SECOND) AS starttime,"
    " SESSION_END(`dateTime`, INTERVAL '10' SECOND) AS endtime FROM bid"
    " GROUP BY bidder, SESSION(`dateTime`, INTERVAL '10' SECOND)",
    "q12": f"SELECT bidder, COUNT(*) AS bids, window_start AS starttime, window_end AS endtime"
    f" FROM {tumbling('read_bid', 'p_time')} GROUP BY bidder, window_start, window_end",
    "q14": "SELECT auction, bidder, 0.908 * price AS price, CASE"
    " WHEN HOUR(`dateTime`) >= 8 AND HOUR(`dateTime`) <= 18 THEN 'dayTime'"
    " WHEN HOUR(`dateTime`) <= 6 OR HOUR(`dateTime`) >= 20 THEN 'nightTime' ELSE 'otherTime' END AS bidTimeType,"
    " `dateTime`, extra, CHAR_LENGTH(extra) - CHAR_LENGTH(REPLACE(extra, 'c', '')) AS c_counts"
    " FROM bid WHERE 0.908 * price > 1000000 AND 0.908 * price < 50000000",
    "q15": f"SELECT {DAY} AS `day`, {STATISTICS} FROM bid GROUP BY {DAY}",
    "q16": f"SELECT channel, {DAY} AS `day`, MAX({MINUTE}) AS `minute`, {STATISTICS} FROM bid GROUP BY channel, {DAY}",
    "q17": f"SELECT auction, {DAY} AS `day`, {counts('*', 'bids')}, MIN(price) AS min_price, MAX(price) AS max_price,"
    f" AVG(price) AS avg_price, SUM(price) AS sum_price FROM bid GROUP BY auction, {DAY}",
    "q18": "SELECT auction, bidder, price, channel, url, `dateTime`, extra FROM ("
    " SELECT *, ROW_NUMBER() OVER (PARTITION BY bidder, auction ORDER BY `dateTime` DESC) AS place FROM bid"
    ") WHERE place <= 1",
    "q19": "SELECT * FROM (SELECT *, ROW_NUMBER() OVER (PARTITION BY auction ORDER BY price DESC) AS place FROM bid)"
    " WHERE place <= 10",
    "q20": "SELECT auction, bidder, price, channel, url, B.`dateTime` AS bid_time, B.extra AS bid_extra, item,"
    " description, initialBid, reserve, A.`dateTime` AS auction_time, expires, seller, category,"
    " A.extra AS auction_extra FROM bid B JOIN auction A ON B.auction = A.id WHERE A.category = 10",
    "q21": "SELECT auction, bidder, price, channel, CASE LOWER(channel) WHEN 'apple' THEN '0' WHEN 'google' THEN '1'"
    f" WHEN 'facebook' THEN '2' WHEN 'baidu' THEN '3' ELSE {CHANNEL_ID} END AS channel_id FROM bid"
    f" WHERE {CHANNEL_ID} IS NOT NULL OR LOWER(channel) IN ('apple', 'google', 'facebook', 'baidu')",
    "q22": "SELECT auction, bidder, price, channel, SPLIT_INDEX(url, '/', 3) AS dir1,"
    " SPLIT_INDEX(url, '/', 4) AS dir2, SPLIT_INDEX(url, '/', 5) AS dir3 FROM bid",
    "q23": "SELECT bidder, price, channel, url, B.extra AS bid_extra, name, email, card, city, state,"
    " P.extra AS person_extra, item, description, initialBid, reserve, A.`dateTime` AS auction_time, expires, category,"
    " A.extra AS auction_extra FROM bid B JOIN person P ON P.id = B.bidder JOIN auction A ON A.seller = B.bidder",
}


def statements(name: str, directory: Path) -> list[str]:
    """Tables over the files below `directory`, and the query, whose rows go nowhere."""
    tables = [
        f"CREATE TEMPORARY TABLE {kind} ({columns.format(time=TIME)},"
        " WATERMARK FOR `dateTime` AS `dateTime` - INTERVAL '0.001' SECOND)"
        f" WITH ('connector' = 'filesystem', 'path' = '{(directory / kind).as_uri()}', 'format' = 'parquet',"
        " 'parquet.utc-timezone' = 'true')"
        for kind, columns in COLUMNS.items()
    ]
    read = "CREATE TEMPORARY VIEW read_bid AS SELECT *, PROCTIME() AS p_time FROM bid"
    made = f"CREATE TABLE discarded WITH ('connector' = 'blackhole') AS {QUERIES[name]}"
    return [*tables, read, made]
