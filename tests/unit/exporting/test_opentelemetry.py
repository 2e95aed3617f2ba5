"""What `rc.OpenTelemetry` refuses."""

from __future__ import annotations

import sys

import pytest

import rechannel as rc


@pytest.mark.parametrize("tasks", [-1, 1.5, True, "all"])
def test_a_number_of_tasks_that_is_none_is_refused(tasks):
    with pytest.raises(rc.errors.RefusedError, match=r"must be a whole number, 0 or more"):
        rc.OpenTelemetry(tasks=tasks)


def test_an_amount_of_error_text_that_is_unknown_is_refused():
    with pytest.raises(rc.errors.RefusedError, match=r"must be one of \['class', 'line', 'text'\]"):
        rc.OpenTelemetry(errors="all")


def test_exporting_nothing_is_refused():
    with pytest.raises(rc.errors.RefusedError, match=r"nothing would be exported"):
        rc.OpenTelemetry(traces=False, metrics=False)


def test_without_the_package_it_says_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "opentelemetry.trace", None)
    with pytest.raises(rc.errors.SetUpError, match=r"pip install 'rechannel\[otel\]'"):
        rc.OpenTelemetry()
