"""What holds of the advice for any stream: bounds, order, and agreement with what was measured."""

from hypothesis import given, settings
from hypothesis import strategies as st

from rechannel.scaling.files.request import Request
from rechannel.scaling.files.spark.reader import advice_of
from tests.unit.scaling.files.spark.streams import counts

streams = st.builds(
    counts,
    cores=st.integers(1, 6),
    partitions=st.integers(1, 12),
    sources=st.integers(1, 4),
    rate=st.integers(100, 4_000),
    batches=st.just(10),
    waits=st.sampled_from([lambda _: 0, lambda number: 13 * number % 40]),
)


def query_of(app, **asked):
    (query,) = advice_of(app, Request(**asked), title="made").queries
    return query


@settings(max_examples=40, deadline=None)
@given(app=streams, rate=st.floats(50, 20_000), interval=st.floats(600, 20_000))
def test_advice_is_the_least_that_keeps_the_interval(app, rate, interval):
    query = query_of(app, rate=rate, interval_ms=interval)
    for each in (query.now, query.advised, *query.others):
        assert 0 <= each.low_ms <= each.batch_ms <= each.high_ms
        assert each.keeps is (each.used <= 0.8 * (1 + 1e-9))
        assert 1 <= each.cores <= 4_096
        assert each.partitions >= 1
    fewer = [each for each in query.others if each.cores < query.advised.cores]
    if query.advised.keeps:
        assert not any(each.keeps for each in fewer)
    else:
        assert not any(each.keeps for each in query.others)


@settings(max_examples=30, deadline=None)
@given(app=streams, rate=st.floats(50, 10_000), times=st.floats(1, 4))
def test_more_rows_need_no_fewer_cores(app, rate, times):
    less = query_of(app, rate=rate, interval_ms=4_000).advised
    more = query_of(app, rate=rate * times, interval_ms=4_000).advised
    assert less.cores <= more.cores or not more.keeps


@settings(max_examples=30, deadline=None)
@given(app=streams)
def test_what_was_measured_is_what_is_computed_for_it(app):
    """With the rate and interval that were measured, the batch as it was takes what the median batch took."""
    query = query_of(app)
    rows = query.rate * query.interval_ms / 1e3
    if query.interval_from == "measured" and abs(rows - query.measured_rows) < 0.01 * rows:
        assert abs(query.now.batch_ms - query.measured_ms) < 0.1 * query.measured_ms
