"""A profile as plain values."""

from dataclasses import replace

import pytest

from rechannel.profiling.model.analysis import ProfileOptions
from rechannel.profiling.model.finding import Finding
from rechannel.profiling.reading import analyse_trace
from rechannel.profiling.report.record import about
from tests.unit.profiling.model.test_findings import rounds


@pytest.mark.parametrize(
    ("gain", "basis"),
    [(0.05, ""), (0.5, "; gains are shares of the 4 s in which it was not idle"), (None, "")],
)
def test_what_gains_are_shares_of(gain, basis):
    made = analyse_trace(rounds((2, 2), 1, steps=80), "rounds", ProfileOptions(window=40.0))
    known = about(replace(made, findings=[]))
    assert known.startswith("40 s in 1 window")
    seconds = None if gain is None else 2.0
    told = Finding(cause="skew", text="Skew.", advice="Mend it.", gain=gain, seconds=seconds)
    assert about(replace(made, findings=[told])) == known + basis
