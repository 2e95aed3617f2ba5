"""Processor time of a tree of processes, over spans of its run."""

import subprocess
import sys

import pytest

from benchmarks.processor import ProcessorTime, processor_time, used

SPIN = "import time\nwhile time.process_time() < 0.33: pass"


def test_a_span_has_what_was_used_between_its_ends():
    watched = ProcessorTime(at=[0, 10, 20], seconds=[1.0, 2.0, 5.0])
    assert watched.between(0, 20) == 4.0
    assert watched.between(5, 15) == 2.0


@pytest.mark.parametrize("span", [(-1, 5), (5, 21)])
def test_a_span_that_was_not_watched_is_refused(span):
    with pytest.raises(ValueError, match="not watched"):
        ProcessorTime(at=[0, 20], seconds=[0.0, 1.0]).between(*span)
    with pytest.raises(ValueError, match="not watched"):
        ProcessorTime().between(0, 1)


def test_processes_that_were_started_count_also_when_they_have_ended():
    before = used()
    with processor_time() as watched:
        subprocess.run([sys.executable, "-c", SPIN], check=True)
    # Hundredths of a second, as differences of floats.
    assert round(watched.between(watched.at[0], watched.at[-1]), 2) >= 0.3
    assert round(used() - before, 2) >= 0.3
