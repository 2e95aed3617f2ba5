"""The page of a profile in a real browser: drawn, clicked, zoomed, pointed at, on a phone, by night."""

from __future__ import annotations

from dataclasses import replace

import pytest

from rechannel.profiling.model.finding import Finding, Place
from rechannel.profiling.report.colours import KIND_COLOURS
from rechannel.profiling.report.notebook import notebook_html
from rechannel.profiling.report.page import page_html
from tests.unit.profiling.report.test_page import EVIL
from tests.unit.profiling.report.traces import JOIN, SCAN, analysed, cluster

pytestmark = [pytest.mark.slow, pytest.mark.browser]

SKEW = Finding(
    cause="skew",
    text="Stage 5 (join on customer_id) spends most of its time in one task.",
    advice="Set spark.sql.adaptive.skewJoin.enabled.",
    gain=0.4,
    place=Place(stage=5, worker="executor 1 core 1", operator=JOIN),
)
SMALL_TALK = replace(SKEW, cause="idle", gain=0.01, place=Place())


def cluster_page(executors, cores, rounds=12, *, hosts=0, title="a cluster"):
    made = analysed(cluster(executors, cores, rounds), title, hosts=hosts)
    return replace(made, findings=[SKEW, SMALL_TALK])


@pytest.fixture(scope="module")
def of_131():
    """131 workers on 7 hosts."""
    return page_html(cluster_page(26, 5, hosts=7))


@pytest.fixture(scope="module")
def of_1000():
    return page_html(cluster_page(250, 4))


def colours(tab, selector, *, left=0.0):
    """The colours that a canvas has more than a few pixels of, right of a share of its width."""
    return set(
        tab.page.evaluate(
            """([selector, left]) => {
                const canvas = document.querySelector(selector);
                const from = Math.floor(left * canvas.width);
                const {data} = canvas.getContext("2d").getImageData(from, 0, canvas.width - from, canvas.height);
                const counts = new Map();
                for (let i = 0; i < data.length; i += 4) {
                    const hex = "#" + [0, 1, 2].map((k) => data[i + k].toString(16).padStart(2, "0")).join("");
                    if (data[i + 3] === 255) counts.set(hex, (counts.get(hex) || 0) + 1);
                }
                return [...counts].filter(([, count]) => count > 20).map(([hex]) => hex);
            }""",
            [selector, left],
        )
    )


def clipped(tab):
    """Texts that do not fit into their boxes."""
    return tab.page.evaluate(
        """() => {
            const boxes = ".label, .label .name, .lanes .name, .windows .name, .vertex, .finding, button, td, th";
            const wide = (box) => box.scrollWidth > box.clientWidth + 1;
            const tall = (box) => box.scrollHeight > box.clientHeight + 1;
            return [...document.querySelectorAll(boxes)]
                .filter((box) => box.offsetParent && getComputedStyle(box).display !== "inline")
                .filter((box) => wide(box) || tall(box))
                .map((box) => `${box.className}: ${box.textContent}`);
        }"""
    )


def labels(tab):
    """Names of the rows in sight."""
    tab.settle()
    return tab.page.locator(".label .name").all_inner_texts()


def test_everything_is_drawn(tabs, of_131):
    tab = tabs.open(of_131)
    for name in ("processing", "fetch wait", "scheduling"):
        assert KIND_COLOURS[name] in colours(tab, "#stage canvas")
        assert tab.page.locator(f'#legend [data-kind="{name}"]').is_visible()
    assert KIND_COLOURS["processing"] in colours(tab, "#windows canvas")
    lanes = tab.page.locator("#lanes .name").all_inner_texts()
    assert lanes == ["SQL executions", "jobs", "stages"]
    assert tab.page.locator(".vertex .name").all_inner_texts() == [SCAN, JOIN, "driver"]
    assert tab.page.locator("#graph path").count() == 1
    assert tab.page.locator("#matrix td[title]").count() > 0
    assert clipped(tab) == []


def test_executors_fold_and_unfold(tabs, of_131):
    tab = tabs.open(of_131)
    assert labels(tab) == ["driver", *(f"host node-{n}" for n in range(7))]
    host = tab.page.get_by_role("button", name="host node-0", exact=False).first
    assert host.get_attribute("aria-expanded") == "false"
    host.click()
    assert labels(tab)[1:4] == ["host node-0", "executor 1", "executor 8"]
    assert host.get_attribute("aria-expanded") == "true"
    tab.page.locator(".label", has_text="executor 1").first.click()
    assert "executor 1 core 5" in labels(tab)
    tab.page.locator("#fold-all").click()
    assert len(labels(tab)) == 8


def test_the_wheel_zooms_on_the_axis_and_with_control_on_rows(tabs, of_131):
    tab = tabs.open(of_131)
    whole = tab.view()
    tab.page.mouse.move(*tab.middle("#lanes", 0.6))
    tab.page.mouse.wheel(0, -400)
    zoomed = tab.view()
    assert whole[0] < zoomed[0] < zoomed[1] < whole[1]
    tab.page.mouse.wheel(0, 4_000)
    assert tab.view() == whole
    tab.page.mouse.move(*tab.middle("#scroll", 0.6))
    tab.page.mouse.wheel(0, -400)
    assert tab.view() == whole
    tab.page.keyboard.down("Control")
    tab.page.mouse.wheel(0, -400)
    tab.page.keyboard.up("Control")
    assert tab.view()[1] - tab.view()[0] < whole[1] - whole[0]


def test_dragging_zooms_to_what_is_chosen(tabs, of_131):
    tab = tabs.open(of_131)
    start, end = tab.view()
    canvas = tab.page.evaluate("document.querySelector('#stage .label').offsetWidth")
    box = tab.page.locator("#scroll").bounding_box()
    left, width = box["x"] + canvas, box["width"] - canvas
    tab.page.mouse.move(left + 0.5 * width, box["y"] + 60)
    tab.page.mouse.down()
    tab.page.mouse.move(left + 0.75 * width, box["y"] + 60, steps=5)
    assert tab.page.locator("#chosen").is_visible()
    tab.page.mouse.up()
    assert not tab.page.locator("#chosen").is_visible()
    first, last = tab.view()
    assert first == pytest.approx(start + 0.5 * (end - start), rel=0.02)
    assert last == pytest.approx(start + 0.75 * (end - start), rel=0.02)


def test_pointing_shows_what_where_and_how_critical(tabs, of_131):
    tab = tabs.open(of_131)
    tab.page.locator("#unfold-all").click()
    tab.page.locator("#filter").fill("executor 1 core 1")
    assert labels(tab)[-1] == "executor 1 core 1"
    box = tab.page.locator(".label").last.bounding_box()
    whole = tab.page.locator("#scroll").bounding_box()
    x = whole["x"] + box["width"] + 0.03 * (whole["width"] - box["width"])
    tab.page.mouse.move(x, box["y"] + 8)
    words = tab.page.locator("#tooltip").inner_text()
    for part in (
        "executor 1 core 1",
        "processing",
        SCAN,
        "starts at 12 ms",
        "lasts",
        "of the critical path",
    ):
        assert part in words
    tab.page.mouse.move(*tab.middle("#lanes", 0.5, 0.9))
    assert "stage" in tab.page.locator("#tooltip").inner_text()
    tab.page.mouse.move(*tab.middle("#windows", 0.5, 0.3))
    assert "critical path" in tab.page.locator("#tooltip").inner_text()
    tab.page.mouse.move(5, 5)
    assert not tab.page.locator("#tooltip").is_visible()


def test_a_finding_is_shown_where_it_is(tabs, of_131):
    tab = tabs.open(of_131)
    whole = tab.view()
    button = tab.page.get_by_role("button", name="Show on the timeline: skew")
    button.click()
    start, end = tab.view()
    assert end - start < 0.3 * (whole[1] - whole[0])
    assert tab.page.locator(".label.at .name").inner_text() == "executor 1 core 1"
    assert tab.page.locator("#chosen").is_visible()
    tab.page.locator("#clear").click()
    assert not tab.page.locator("#chosen").is_visible()
    # What has little weight is out of the way.
    assert not tab.page.get_by_text("idle", exact=True).is_visible()


def test_kinds_and_operators_can_be_singled_out(tabs, of_131):
    tab = tabs.open(of_131)
    legend = tab.page.locator('#legend [data-kind="fetch wait"]')
    legend.click()
    tab.settle()
    assert legend.get_attribute("aria-pressed") == "true"
    left = colours(tab, "#stage canvas", left=0.3)
    assert KIND_COLOURS["processing"] not in left
    assert KIND_COLOURS["fetch wait"] in left
    legend.click()
    tab.settle()
    assert KIND_COLOURS["processing"] in colours(tab, "#stage canvas", left=0.3)
    vertex = tab.page.locator(".vertex").first
    vertex.click()
    assert vertex.get_attribute("aria-pressed") == "true"
    tab.page.locator("#dim").check()
    tab.settle()
    assert KIND_COLOURS["processing"] in colours(tab, "#stage canvas", left=0.3)


def test_everything_works_by_keyboard(tabs, of_131):
    tab = tabs.open(of_131)
    whole = tab.view()
    tab.page.locator("#scroll").focus()
    press = tab.page.keyboard.press
    press("+")
    press("+")
    start, end = tab.view()
    assert end - start == pytest.approx((whole[1] - whole[0]) / 4)
    press("ArrowRight")
    assert tab.view()[0] > start
    press("0")
    assert tab.view() == whole
    for key in ("ArrowDown", "ArrowDown", "Enter", "ArrowDown", "Enter", "ArrowDown"):
        press(key)
    tab.settle()
    assert tab.page.locator(".label.at .name").inner_text() == "executor 1 core 1"
    press("n")
    first = tab.page.locator("#reading").inner_text()
    assert first.startswith("processing")
    press("n")
    assert tab.page.locator("#reading").inner_text() != first
    press("p")
    assert tab.page.locator("#reading").inner_text() == first
    press("Escape")
    tab.settle()
    assert tab.page.locator(".label.at").count() == 0


def test_a_thousand_workers_are_folded_and_only_rows_in_sight_are_there(tabs, of_1000):
    tab = tabs.open(of_1000)
    assert 5 < len(labels(tab)) <= 24
    tab.page.locator("#unfold-all").click()
    assert len(labels(tab)) < 60
    assert int(tab.page.evaluate("frame.dataset.rows")) > 1_250
    tab.page.evaluate("stage.parentNode.parentNode.scrollTop = 1e6")
    assert labels(tab)[-1] == "executor 250 core 4"
    assert KIND_COLOURS["processing"] in colours(tab, "#stage canvas")
    tab.page.locator("#filter").fill("executor 77")
    assert [name for name in labels(tab) if "core" in name] == [
        f"executor 77 core {c}" for c in range(1, 5)
    ]
    tab.page.locator("#filter").fill("")
    tab.page.locator("#sort").select_option("critical")
    assert labels(tab)[:3] == ["executor 1 to executor 25", "executor 1", "executor 1 core 1"]
    assert clipped(tab) == []


def test_the_matrix_folds(tabs, of_131):
    tab = tabs.open(of_131)
    heads = tab.page.locator("#matrix tbody th")
    before = heads.count()
    tab.page.locator("#matrix tbody button", has_text="host node-0").click()
    assert heads.count() > before
    assert "executor 1" in heads.all_inner_texts()[1]
    tab.page.locator("#matrix p button", has_text="host node-0").click()
    assert heads.count() == before


@pytest.mark.parametrize("workers", ["of_131", "of_1000"])
def test_a_phone_is_wide_enough(tabs, workers, request):
    tab = tabs.open(request.getfixturevalue(workers), width=360, height=740, has_touch=True)
    assert tab.page.evaluate("document.documentElement.scrollWidth") == 360
    assert clipped(tab) == []
    assert tab.page.locator(".label").nth(1).bounding_box()["width"] > 300
    tab.page.touchscreen.tap(*tab.middle("#lanes", 0.5, 0.9))
    assert "stage" in tab.page.locator("#tooltip").inner_text()
    tip = tab.page.locator("#tooltip").bounding_box()
    assert tip["x"] >= 0
    assert tip["x"] + tip["width"] <= 360


def test_night_changes_the_paper_and_no_kind(tabs, of_131):
    light, dark = (tabs.open(of_131, color_scheme=scheme) for scheme in ("light", "dark"))
    paper = "getComputedStyle(document.body).backgroundColor"
    assert light.page.evaluate(paper) != dark.page.evaluate(paper) == "rgb(20, 23, 26)"
    swatches = (
        "[...document.querySelectorAll('#legend .swatch')].map((each) => each.style.background)"
    )
    assert light.page.evaluate(swatches) == dark.page.evaluate(swatches)
    for tab in (light, dark):
        assert KIND_COLOURS["processing"] in colours(tab, "#stage canvas")
    dark.page.locator("#theme").select_option("light")
    assert dark.page.evaluate(paper) == light.page.evaluate(paper)
    dark.page.reload()
    assert dark.page.evaluate(paper) == light.page.evaluate(paper)
    dark.requests.pop()


def test_names_are_text(tabs):
    made = cluster_page(2, 1, title=EVIL)
    tab = tabs.open(page_html(replace(made, findings=[replace(SKEW, text=EVIL)], notes=[EVIL])))
    assert tab.page.locator("h1").text_content() == EVIL
    assert tab.page.evaluate("document.scripts.length") == 2


def test_a_notebook_shows_it_in_a_frame(tabs, of_131, browser):
    page = browser.new_page()
    complaints = []
    page.on("console", lambda message: complaints.append(message.text))
    page.on("pageerror", lambda error: complaints.append(str(error)))
    page.set_content(notebook_html(cluster_page(26, 5, hosts=7)))
    frame = page.frame_locator("iframe")
    frame.locator("#legend button").first.wait_for()
    frame.locator("#unfold-all").click()
    assert frame.locator(".label").count() > 10
    frame.locator("#theme").select_option("dark")
    assert complaints == []
    page.close()
