"""Times in one form, wherever a user reads them."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone

import pytest

from rechannel.model.text import iso, iso_utc, iso_utc_us

NOON = datetime(2026, 1, 31, 12, tzinfo=UTC)


@pytest.mark.parametrize(
    ("when", "text"),
    [
        (NOON, "2026-01-31T12:00:00.000Z"),
        (NOON.replace(microsecond=120_000), "2026-01-31T12:00:00.120Z"),
        (NOON.replace(microsecond=1), "2026-01-31T12:00:00.000001Z"),
        (NOON.replace(tzinfo=None), "2026-01-31T12:00:00.000"),
        (NOON.astimezone(timezone(timedelta(hours=2))), "2026-01-31T14:00:00.000+02:00"),
    ],
)
def test_a_time_is_shown(when, text):
    assert iso(when) == text
    assert datetime.fromisoformat(text) == when


def test_all_units_have_the_same_form():
    ms = NOON.timestamp() * 1e3
    assert iso_utc(ms) == iso_utc(ms + 0.25) == iso_utc_us(int(ms) * 1000) == iso(NOON)
    assert iso_utc(-1) == "1969-12-31T23:59:59.999Z"


def test_what_no_calendar_has_is_shown_as_a_number():
    assert iso_utc(1e18) == "1000000000000000000 ms"
    assert iso_utc(float("inf")) == "inf ms"
    assert iso_utc(float("nan")) == "nan ms"
    assert iso_utc_us(10**18) == "1000000000000000000 µs"
