"""A job that shows itself: when it looks, and what is shown."""

from __future__ import annotations

import re
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import rechannel as rc
from rechannel.errors import RefusedError
from rechannel.running.live import MOST_TIMESTEPS, page, watch
from rechannel.testing import script


class Screen:
    def __init__(self) -> None:
        self.shown: list[str] = []

    def show(self, html: str) -> None:
        self.shown.append(html)


def waits(*ended: bool) -> tuple[list[float], Any]:
    """Whether the job has ended, wait by wait; and for how long each wait would have been."""
    asked, answers = [], iter(ended)

    def over(seconds: float) -> bool:
        asked.append(seconds)
        return next(answers)

    return asked, over


def test_it_looks_at_once_and_once_more_when_the_job_has_ended():
    looks, screen = iter("abc"), Screen()
    asked, over = waits(False, True)
    watch(lambda: next(looks), over, None, 2.0, screen)
    assert (screen.shown, asked) == (["a", "b", "c"], [2.0, 2.0])


def test_it_stops_when_the_time_is_up():
    looks, screen = iter("abc"), Screen()
    asked, over = waits(False, False)
    watch(lambda: next(looks), over, 2.5, 2.0, screen)
    assert (screen.shown, asked) == (["a", "b", "c"], [2.0, 0.5])


def test_an_interrupt_ends_it_and_not_the_job():
    def interrupted(seconds: float) -> bool:
        raise KeyboardInterrupt

    screen = Screen()
    watch(lambda: "a", interrupted, None, 1.0, screen)
    assert screen.shown == ["a"]


def test_no_time_between_two_looks_is_refused():
    with pytest.raises(
        RefusedError, match="every=0: the seconds between two looks must be positive"
    ):
        watch(lambda: "a", lambda _: True, None, 0, Screen())


def test_without_ipython_it_says_what_to_do(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setitem(sys.modules, "IPython.display", None)
    with pytest.raises(RefusedError, match=r"IPython is not installed.*rechannel watch"):
        watch(lambda: "a", lambda _: True, None, 1.0)


def test_a_page_has_the_status_and_a_bar_per_timestep(tmp_path: Path):
    rows = script("user STRING", [[{"user": "ann"}], [{"user": "<bob>"}]])
    users = rc.read().memory(rows, name="rows").key_by("user").aggregate(n=rc.aggregates.count())
    job = rc.Job("<clicks>", users.write.memory("out"), state=tmp_path).start(
        in_process=rc.InProcess()
    )
    job.process_all_available()
    job.stop()
    html = page(job.status, job.recent_progress)
    assert "JobStatus" in html
    assert "<clicks>" not in html
    assert html.count("<rect") == 2
    assert "duration of timesteps 1 to 2" in html
    assert page(job.status, []) == job.status._repr_html_()


def test_the_highest_bar_is_that_of_the_longest_and_old_ones_go(tmp_path: Path):
    rows = script("user STRING", [[{"user": "ann"}]])
    users = rc.read().memory(rows, name="rows").key_by("user").aggregate(n=rc.aggregates.count())
    job = rc.Job("clicks", users.write.memory("out"), state=tmp_path).start(
        in_process=rc.InProcess()
    )
    job.process_all_available()
    job.stop()
    (one,) = job.recent_progress
    many = [replace(one, timestep=n, duration_ms=float(n)) for n in range(1, MOST_TIMESTEPS + 11)]
    html = page(job.status, many)
    heights = [float(each) for each in re.findall(r'<rect[^>]* height="([\d.]+)"', html)]
    assert len(heights) == MOST_TIMESTEPS
    assert heights == sorted(heights)
    assert heights[-1] == 48.0
    assert "timesteps 11 to 110; the longest took 110 ms" in html
