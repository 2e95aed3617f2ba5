"""The page of advice in a real browser: by day and by night, on a phone, without scripts."""

from __future__ import annotations

import pytest

from rechannel.scaling.report.api import page_of
from rechannel.scaling.report.page import page_html
from tests.unit.scaling.report.advised import EVIL, of_ds2, of_logs, of_stream

pytestmark = [pytest.mark.slow, pytest.mark.browser]

READY = "main section"


@pytest.fixture(params=["stream", "ds2", "logs"])
def text(request, tmp_path):
    made = {
        "stream": lambda: of_stream(EVIL),
        "ds2": lambda: of_ds2(tmp_path / "word-count"),
        "logs": of_logs,
    }
    return page_html(page_of(made[request.param]()))


def background(tab):
    return tab.page.evaluate("getComputedStyle(document.body).backgroundColor")


def sideways(tab):
    """Pixels by which the page is wider than the window, and texts that do not fit into their cells."""
    return tab.page.evaluate(
        """() => [
            document.documentElement.scrollWidth - document.documentElement.clientWidth,
            [...document.querySelectorAll(".finding, td, th, h1, h2")]
                .filter((box) => box.scrollWidth > box.clientWidth + 1)
                .map((box) => box.textContent),
        ]"""
    )


@pytest.mark.parametrize("width", [1_280, 390])
def test_every_picture_is_in_sight_and_nothing_is_cut_off(tabs, text, width):
    tab = tabs.open(text, width=width, ready=READY)
    charts = tab.page.locator("figure.chart svg")
    assert charts.count() > 0
    for number in range(charts.count()):
        box = charts.nth(number).bounding_box()
        assert box["width"] > 200
        assert box["height"] == pytest.approx(box["width"] * 280 / 540, abs=2)
    assert sideways(tab) == [0, []]


def test_texts_of_a_chart_lie_within_it(tabs, text):
    tab = tabs.open(text, ready=READY)
    outside = tab.page.evaluate(
        """() => [...document.querySelectorAll("figure.chart")].flatMap((figure) => {
            const whole = figure.getBoundingClientRect();
            return [...figure.querySelectorAll("text")]
                .filter((text) => {
                    const box = text.getBoundingClientRect();
                    return box.left < whole.left || box.right > whole.right || box.bottom > whole.bottom;
                })
                .map((text) => text.textContent);
        })"""
    )
    assert outside == []


def test_the_reader_chooses_the_colours(tabs, text):
    tab = tabs.open(text, ready=READY)
    day = background(tab)
    tab.page.locator("#theme").select_option("dark")
    night = background(tab)
    assert day != night
    tab.page.locator("#theme").select_option("light")
    assert background(tab) == day


def test_everything_is_there_without_scripts(browser, text, tmp_path):
    (tmp_path / "page.html").write_text(text, encoding="utf-8")
    page = browser.new_page(java_script_enabled=False)
    page.goto((tmp_path / "page.html").as_uri())
    assert page.locator("figure.chart svg path.line").count() > 0
    assert page.locator("table tbody tr").count() > 0
    page.close()


def test_marks_say_what_they_are(tabs):
    tab = tabs.open(page_html(page_of(of_stream())), ready=READY)
    [cores] = tab.page.get_by_role("img", name="A timestep: ms by cores").all()
    names = cores.locator("circle title").all_text_contents()
    assert [name.partition(":")[0] for name in names] == ["now, at this load", "advised"]
    bars = tab.page.locator("#operators svg")
    assert bars.nth(1).get_attribute("aria-label").startswith("2 now, 10 advised (")
