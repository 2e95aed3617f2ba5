"""The page for those who come from Structured Streaming: both programs run, and print the same rows."""

import pytest

from tests.pages import run_page

TIME_ZONE = "spark.sql.session.timeZone"


@pytest.fixture
def own_time_zone(spark):
    """The page sets the session's time zone."""
    before = spark.conf.get(TIME_ZONE)
    yield
    spark.conf.set(TIME_ZONE, before)


@pytest.mark.usefixtures("own_time_zone")
def test_the_page_runs_as_it_is_written(spark, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert run_page("from-structured-streaming", spark=spark) == 4
