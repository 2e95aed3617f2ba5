"""The dashboard in a real browser: a job under load, under a move, changed from the page; at night, on a phone."""

from __future__ import annotations

import json
import time
from urllib.parse import urlsplit

import pytest

import rechannel as rc
from rechannel.cli.inspect.directory import open_directory
from rechannel.cli.inspect.watched import Saved
from rechannel.serve.watched_server import serve_watched
from tests.support import busy_shop

pytestmark = [pytest.mark.slow, pytest.mark.browser]

SECTIONS = ("dataflow", "time", "bins", "changes", "change", "sources", "operators")
EVIL = "</script><img src=x onerror=\"document.title='taken'\"><b>&amp;\u2028'\"`${1}"
HEAT = [210, 65, 58]
"""The colour of what moves, by day."""


@pytest.fixture(scope="module")
def shop(tmp_path_factory):
    """A job under load, and its server."""
    job = busy_shop.start(tmp_path_factory.mktemp("shop") / "state", interval_ms=400, rows=1_000)
    try:
        with job.serve(port=0) as server:
            until(lambda: job.status.timestep > 5)
            yield job, server
    finally:
        job.stop()


def until(holds, patience_s=60.0):
    deadline = time.monotonic() + patience_s
    while not holds():
        assert time.monotonic() < deadline
        time.sleep(0.02)


def entered(tabs, server, **options):
    """The page of a job, after its token was typed."""
    tab = tabs.visit(server.url, ready=".key input", **options)
    tab.page.locator(".key input").fill(server.token)
    tab.page.keyboard.press("Enter")
    tab.page.locator("#dataflow .node").first.wait_for()
    return tab


def ink(tab, selector, colour):
    """Pixels of a canvas that have about a colour."""
    return tab.page.evaluate(
        """([selector, [red, green, blue]]) => {
            const canvas = document.querySelector(selector);
            const {data} = canvas.getContext("2d").getImageData(0, 0, canvas.width, canvas.height);
            const far = (i) => Math.abs(data[i] - red) + Math.abs(data[i + 1] - green) + Math.abs(data[i + 2] - blue);
            let count = 0;
            for (let i = 0; i < data.length; i += 4) count += data[i + 3] > 0 && far(i) < 24;
            return count;
        }""",
        [selector, colour],
    )


def painted(tab, selector):
    """Colours that a canvas has."""
    return tab.page.evaluate(
        """(selector) => {
            const canvas = document.querySelector(selector);
            const {data} = canvas.getContext("2d").getImageData(0, 0, canvas.width, canvas.height);
            return new Set(new Uint32Array(data.buffer)).size;
        }""",
        selector,
    )


def sideways(tab):
    """Pixels by which the page is wider than the window."""
    return tab.page.evaluate(
        "document.documentElement.scrollWidth - document.documentElement.clientWidth"
    )


def clipped(tab):
    """Texts that do not fit into their boxes and do not say so."""
    return tab.page.evaluate(
        """() => [...document.querySelectorAll("main h2, main h3, td, th, dd, dt, legend, nav a, .pill, .critical")]
            .filter((box) => box.offsetParent && getComputedStyle(box).display !== "inline")
            .filter((box) => box.scrollWidth > box.clientWidth + 1)
            .map((box) => `${box.tagName}: ${box.textContent}`)"""
    )


def answering(body):
    """A handler of requests that answers with this JSON."""
    return lambda route: route.fulfill(body=body, content_type="application/json")


def test_every_section_shows_the_job_under_load(tabs, shop):
    job, server = shop
    tab = entered(tabs, server)
    page = tab.page
    assert page.title() == "shop · Rechannel"
    assert page.locator("h1").inner_text() == "shop"
    assert [each.get_attribute("id") for each in page.locator("main section[id]").all()] == list(
        SECTIONS
    )
    assert set(page.locator(".node .name").all_inner_texts()) == {node.name for node in job.nodes}
    assert page.locator(".edges path").count() == sum(len(node.upstreams) for node in job.nodes)
    page.locator(".critical .stack span").first.wait_for(
        timeout=60_000
    )  # what counts paths may be compiled
    assert "of timesteps" in page.locator(".critical").inner_text()
    page.locator(".edges text").first.wait_for()
    assert page.locator(".edges text").first.text_content().endswith("/s")
    for number in range(4):
        assert painted(tab, f".chart:nth-child({number + 1}) canvas") > 5
    for name in ("customers", "segments", "products", "visitors"):
        assert page.locator(".map h3", has_text=name).is_visible()
    names = page.locator("#operators tbody tr td:first-child").all_inner_texts()
    assert set(names) == set(job.status.operators)
    assert page.locator("#sources tbody tr").count() == len(job.sources) + len(job.sinks) == 3
    assert sideways(tab) == 0
    assert clipped(tab) == []


def test_it_goes_on_by_itself(tabs, shop):
    job, server = shop
    tab = entered(tabs, server)
    about = tab.page.locator("#head .about")
    before = about.inner_text()
    tab.page.wait_for_function(
        "([text]) => document.querySelector('#head .about').textContent !== text", arg=[before]
    )
    shown = int(about.inner_text().removeprefix("timestep ").partition(",")[0])
    assert 0 < shown <= job.status.timestep


def test_bins_are_seen_to_move(tabs, shop):
    job, server = shop
    tab = entered(tabs, server)
    page = tab.page
    panel = page.locator(".map", has=page.locator("h3", has_text="customers"))
    before = page.locator(".map canvas").first.get_attribute("aria-label")
    assert "128 bins at 4 tasks" in before
    change = job.reconfigure(
        rc.changes.rescale("customers", tasks=6), rc.strategies.fluid(bins=4, gap=6), cause=EVIL
    )
    panel.get_by_text("to move").wait_for()
    assert ink(tab, ".map canvas", HEAT) > 0
    row = page.locator("#changes tbody tr").first
    row.locator("progress").wait_for()
    assert row.locator(".pill").inner_text() in {"moving", "ready"}
    change.wait(120)
    page.locator("#changes .pill.done").first.wait_for()
    assert EVIL in row.text_content()
    panel.get_by_text("128 bins at 6 tasks").wait_for()
    assert "to move" not in panel.inner_text()
    assert page.title() == "shop · Rechannel"
    labels = panel.locator(".task-names span").all_inner_texts()
    assert labels == [f"task {number}" for number in range(6)]


def test_a_change_is_planned_then_applied(tabs, shop):
    job, server = shop
    tab = entered(tabs, server)
    page, form = tab.page, tab.page.locator("form.change")
    apply = form.get_by_role("button", name="Apply this plan")
    assert apply.is_disabled()
    before = job.configuration.operators["visitors"].tasks
    form.locator("#change-operator").fill("visitors")
    form.locator("#change-tasks").fill(str(before + 2))
    form.locator("[name=strategy]").select_option("fluid")
    form.locator("#strategy-bins").fill("16")
    form.locator("[name=cause]").fill("sale & more")
    form.get_by_role("button", name="Plan", exact=True).click()
    form.locator(".plan").wait_for()
    assert "bins" in form.locator(".plan").inner_text()
    assert "2 new" in form.locator(".plan").inner_text()
    assert job.configuration.operators["visitors"].tasks == before
    # Another wish needs another plan.
    form.locator("#change-tasks").fill(str(before + 1))
    assert form.locator(".plan").count() == 0
    assert apply.is_disabled()
    form.get_by_role("button", name="Plan", exact=True).click()
    apply.click()
    form.locator(".accepted").wait_for()
    until(lambda: job.configuration.operators["visitors"].tasks == before + 1)
    row = page.locator("#changes tbody tr", has_text="sale & more")
    row.locator(".pill.done").wait_for()
    assert f"rescale(operator='visitors', tasks={before + 1})" in row.inner_text()


def test_a_refusal_says_why(tabs, shop):
    _, server = shop
    tab = entered(tabs, server)
    form = tab.page.locator("form.change")
    form.locator("#change-operator").fill("missing")
    form.locator("#change-tasks").fill("2")
    form.get_by_role("button", name="Plan", exact=True).click()
    refused = form.locator(".refused")
    refused.wait_for()
    assert refused.inner_text().startswith("there is no operator 'missing'")
    assert form.get_by_role("button", name="Apply this plan").is_disabled()
    # The browser's own note of an answer of 404.
    assert [each for each in tab.complaints if "404" not in each] == []
    tab.complaints.clear()


def test_an_open_reconfiguration_is_led_back(tabs, shop):
    job, server = shop
    tab = entered(tabs, server)
    tasks = job.configuration.operators["products"].tasks
    made = job.reconfigure(
        rc.changes.rescale("products", tasks=tasks + 2), rc.strategies.fluid(bins=1, gap=20)
    )
    tab.page.get_by_role("button", name=f"Abort {made.id}").click()
    row = tab.page.locator("#changes tbody tr", has_text=made.id).first
    row.get_by_text("asked for on the page").wait_for(timeout=60_000)
    with pytest.raises(rc.errors.RefusedError, match="asked for on the page"):
        made.wait(120)
    assert made.phase in {"undone", "aborted"}


def test_a_node_is_chosen_and_let_go(tabs, shop):
    _, server = shop
    tab = entered(tabs, server)
    node = tab.page.locator(".node", has_text="products").first
    node.click()
    assert node.get_attribute("aria-pressed") == "true"
    assert tab.page.locator(".map h3").count() == 1
    assert tab.page.locator("#change-operator").input_value() == "products"
    assert tab.page.locator("#operators .chosen-row").count() == 1
    node.click()
    assert tab.page.locator(".map h3").count() == 4


def test_everything_is_reached_by_keyboard(tabs, shop):
    _, server = shop
    tab = entered(tabs, server)
    page, press = tab.page, tab.page.keyboard.press
    page.reload()  # the token stays in the tab; the first Tab goes to the beginning of the page
    page.locator("#dataflow .node").first.wait_for()
    press("Tab")
    assert page.evaluate("document.activeElement.className") == "skip"
    met = set()
    for _ in range(80):
        press("Tab")
        met.add(
            page.evaluate("`${document.activeElement.tagName} ${document.activeElement.className}`")
        )
    for wanted in ("SELECT ", "A ", "CANVAS "):
        assert wanted in met
    assert any(each.startswith("BUTTON node") for each in met)
    page.locator(".map canvas").first.focus()
    press("ArrowRight")
    press("ArrowRight")
    reading = page.locator(".map .reading").first
    assert reading.inner_text().startswith("Bin 1: task 0, ")
    press("End")
    assert reading.inner_text().startswith("Bin 127: ")
    press("PageUp")
    assert reading.inner_text().startswith("Bin 111: ")
    press("Escape")
    assert reading.inner_text().startswith("Point at a bin")
    by_bytes = page.get_by_role("button", name="bytes")
    by_bytes.focus()
    press("Enter")
    assert by_bytes.get_attribute("aria-pressed") == "true"
    assert "by bytes of state" in page.locator(".map h3").first.inner_text()


def test_pointing_reads_bins_and_charts_out(tabs, shop):
    _, server = shop
    tab = entered(tabs, server)
    tab.page.mouse.move(*tab.middle(".map canvas >> nth=0", 0.51, 0.5))
    assert "Bin 65: task" in tab.page.locator(".map .reading").first.inner_text()
    when = tab.page.locator(".chart .when").first
    assert when.inner_text() == "now"
    tab.page.mouse.move(*tab.middle(".chart .u-over >> nth=0", 0.8))
    tab.page.wait_for_function("document.querySelector('.chart .when').textContent !== 'now'")
    others = tab.page.locator(".chart .when").all_inner_texts()
    assert len(set(others)) == 1  # all charts read out one time


def test_night_and_day(tabs, shop):
    _, server = shop
    paper = "getComputedStyle(document.body).backgroundColor"
    light, dark = (entered(tabs, server, color_scheme=scheme) for scheme in ("light", "dark"))
    assert light.page.evaluate(paper) == "rgb(255, 255, 255)"
    assert dark.page.evaluate(paper) == "rgb(20, 23, 26)"
    accent = [47, 127, 224]  # of the first series by day
    dark.page.locator("#theme").select_option("light")
    assert dark.page.evaluate(paper) == "rgb(255, 255, 255)"
    dark.settle()
    assert ink(dark, ".chart:nth-child(2) canvas", accent) > 20
    dark.page.locator("#theme").select_option("auto")


@pytest.mark.parametrize("width", [360, 768])
def test_a_narrow_screen_is_wide_enough(tabs, shop, width):
    _, server = shop
    tab = entered(tabs, server, width=width, height=740, has_touch=True)
    tab.page.locator(".edges text").first.wait_for(timeout=60_000)
    assert sideways(tab) == 0
    assert clipped(tab) == []
    first = tab.page.locator(".node").first.bounding_box()
    assert first["x"] >= 0
    assert first["x"] + first["width"] <= width
    tab.page.touchscreen.tap(*tab.middle(".map canvas >> nth=0", 0.5, 0.5))
    assert "task" in tab.page.locator(".map .reading").first.inner_text()


def test_the_token_is_asked_for_kept_in_the_tab_and_forgotten(tabs, shop):
    _, server = shop
    tab = tabs.visit(server.url, ready=".key input")
    asked = {urlsplit(each).path for each in tab.requests}
    assert all(path == "/" or path.startswith("/ui/") for path in asked)
    tab.page.locator(".key input").fill("not-the-token")
    tab.page.keyboard.press("Enter")
    tab.page.get_by_text("That is not the token of this job.").wait_for()
    assert tab.page.evaluate("Object.keys(sessionStorage)") == []
    tab.page.locator(".key input").fill(server.token)
    tab.page.keyboard.press("Enter")
    tab.page.locator(".node").first.wait_for()
    # Several requests were under way with the wrong token, and each is complained of.
    assert tab.complaints
    assert all("401" in each for each in tab.complaints)
    tab.complaints.clear()
    assert not any(server.token in each for each in tab.requests)
    assert tab.page.evaluate("JSON.stringify(localStorage)") == "{}"
    tab.page.reload()
    tab.page.locator(".node").first.wait_for()
    tab.page.get_by_role("button", name="Forget the token").click()
    tab.page.locator(".key input").wait_for()
    assert tab.page.evaluate("Object.keys(sessionStorage)") == []
    assert tab.page.locator(".node").count() == 0


def test_names_of_a_hostile_program_are_text(tabs, shop):
    """Every answer has markup in place of a name: none of it becomes an element, or runs."""
    _, server = shop
    tab = tabs.visit(server.url, ready=".key input")

    def spoiled(route):
        answer = route.fetch()
        text = json.dumps(EVIL)[1:-1]
        headers = {name: value for name, value in answer.headers.items() if name != "etag"}
        route.fulfill(
            status=answer.status, headers=headers, body=answer.text().replace("customers", text)
        )

    for path in ("status", "progress*", "bins", "dataflow", "flow", "sinks", "reconfigurations*"):
        tab.page.route(f"{server.url}/{path}", spoiled)
    tab.page.locator(".key input").fill(server.token)
    tab.page.keyboard.press("Enter")
    tab.page.locator(".node").first.wait_for()
    tab.page.locator(".edges text").first.wait_for(timeout=60_000)
    assert EVIL in tab.page.locator(".node .name").all_text_contents()
    assert EVIL in tab.page.locator("#operators td:first-child").all_text_contents()
    assert any(EVIL in each for each in tab.page.locator(".map h3").all_text_contents())
    assert tab.page.locator("main img, main script").count() == 0
    assert tab.page.title() == "shop · Rechannel"
    assert sideways(tab) == 0
    tab.page.unroute_all(behavior="wait")


def test_a_large_job_is_drawn(tabs, shop):
    """40 nodes, an operator with 4,096 bins at 200 tasks, and one with more bins than are listed."""
    _, server = shop
    nodes = [
        {
            "name": f"node {at}",
            "kind": "map",
            "upstreams": [f"node {at // 3}"] if at else [],
            "keys": [],
        }
        for at in range(40)
    ]
    many = {
        "tasks": 200, "bins": 4_096, "owners": [bin_ * 200 // 4_096 for bin_ in range(4_096)],
        "bytes": [bin_ % 97 for bin_ in range(4_096)], "rows": None, "timesteps": 0,
        "moving": [[7, 199]], "spread": [9],
    }  # fmt: skip
    listed = {**many, "bins": 20_000, "owners": [], "bytes": [], "moving": [], "spread": []}
    tab = tabs.visit(server.url, ready=".key input")
    for path, answer in (
        ("dataflow", {"nodes": nodes}),
        ("bins", {"operators": {"large": many, "larger": listed}}),
    ):
        tab.page.route(f"{server.url}/{path}", answering(json.dumps(answer)))
    tab.page.locator(".key input").fill(server.token)
    tab.page.keyboard.press("Enter")
    tab.page.locator(".node").nth(39).wait_for()
    assert sideways(tab) == 0
    tab.page.get_by_role("button", name="bytes").click()
    assert tab.page.locator(".map canvas").count() == 1
    assert 200 * 2 <= tab.page.locator(".map canvas").bounding_box()["height"] <= 500
    assert painted(tab, ".map canvas") > 20
    assert "20,000 bins at 200 tasks: too many" in tab.page.locator(".map").nth(1).inner_text()
    tab.page.locator(".map canvas").focus()
    for _ in range(10):
        tab.page.keyboard.press("ArrowRight")
    assert tab.page.locator(".map .reading").inner_text() == (
        "Bin 9: task 0, 9 bytes, its rows are shared by several tasks"
    )
    tab.page.keyboard.press("ArrowLeft")
    tab.page.keyboard.press("ArrowLeft")
    assert tab.page.locator(".map .reading").inner_text().endswith(", moves to task 199")
    tab.page.unroute_all(behavior="wait")


def test_nothing_but_its_own_files_can_run_or_be_fetched(tabs, shop):
    _, server = shop
    tab = tabs.visit(server.url, ready=".key input")
    ran = tab.page.evaluate(
        """async () => {
            const script = document.createElement("script");
            script.textContent = "window.ran = true";
            document.body.append(script);
            const image = new Image();
            document.body.append(Object.assign(image, { src: "data:image/gif;base64,R0lGODlhAQABAAAAACw=" }));
            const fetched = await fetch("http://127.0.0.1:9/").then(() => "fetched", () => "refused");
            return [window.ran === true, fetched];
        }"""
    )
    assert ran == [False, "refused"]
    assert tab.complaints
    assert all("Content Security Policy" in each for each in tab.complaints)
    tab.complaints.clear()


def test_a_job_that_ends_leaves_what_was_known(tabs, tmp_path):
    job = busy_shop.start(tmp_path / "state", rows=400)
    server = job.serve(port=0)
    tab = entered(tabs, server)
    job.stop()
    server.close()
    tab.page.get_by_text("The job does not answer: it has ended").wait_for(timeout=30_000)
    assert tab.page.locator(".node").count() == 11
    assert all("ERR_CONNECTION_REFUSED" in each for each in tab.complaints)
    tab.complaints.clear()
    # The same from its state directory, where nothing can be changed.
    with serve_watched(Saved(open_directory(tmp_path / "state")), port=0) as saved:
        tab.page.close()
        tabs.opened.remove(tab)
        tab = entered(tabs, saved)
        assert tab.page.locator("#head .pill").inner_text() == "stopped"
        assert "read only" in tab.page.locator("#head").inner_text()
        assert tab.page.locator(".node").count() == 11
        assert tab.page.locator("#change").count() == 0
        assert tab.page.locator(".map canvas").count() == 4
        assert painted(tab, ".chart:nth-child(1) canvas") > 5
        assert clipped(tab) == []


def test_a_job_that_does_not_answer_in_time_is_not_shown_as_running(tabs, shop):
    """Its host was cut off, or suspended: no connection is closed."""
    _, server = shop
    tab = entered(tabs, server)
    tab.page.evaluate(
        "() => { const own = AbortSignal.timeout.bind(AbortSignal); AbortSignal.timeout = (ms) => own(ms / 30); }"
    )
    held = []

    def hold(route):
        held.append(route)

    tab.page.route(f"{server.url}/status", hold)
    tab.page.get_by_text("The job does not answer: ").wait_for()
    assert tab.page.locator("#head .pill").inner_text() == "does not answer"
    assert held
    tab.page.unroute_all(behavior="ignoreErrors")
    tab.page.locator("#head .pill", has_text="running").wait_for()


def test_what_was_typed_becomes_json_with_every_digit(tabs, shop):
    _, server = shop
    tab = tabs.visit(server.url, ready=".key input")
    made = tab.page.evaluate(
        """async () => {
            const { bodyOf, written } = await import("/ui/form.js");
            const field = (name, types, more = {}) => ({ name, types, choices: [], needed: true, ...more });
            const said = (of, typed) => {
                try { return written(of, typed); } catch (error) { return `! ${error.message}`; }
            };
            return [
                bodyOf(
                    "spread",
                    [
                        field("operator", ["string"]),
                        field("hash", ["integer", "null"], { needed: false }),
                        field("key", ["array"]),
                    ],
                    { operator: "a\\"b", hash: "18446744073709551615", key: "7, b" },
                ),
                said(field("most", ["integer", "null"]), ""),
                said(field("tasks", ["integer"]), " "),
                said(field("amounts", ["object"]), "{gpu}"),
                said(field("amounts", ["object"]), '{"gpu": 1}'),
                said(field("mode", ["enum"], { choices: ["on", "off"] }), "on"),
                said(field("prepare", ["boolean"], { initial: true }), false),
                said(field("prepare", ["boolean"], { initial: true }), true) ?? "left out",
            ];
        }"""
    )
    assert made == [
        '{"kind":"spread","operator":"a\\"b","hash":18446744073709551615,"key":[7,"b"]}',
        "null",
        "! tasks is missing",
        "! amounts is not JSON: {gpu}",
        '{"gpu": 1}',
        '"on"',
        "false",
        "left out",
    ]


def test_no_two_boxes_of_a_graph_meet_and_no_line_runs_through_one(tabs, shop):
    _, server = shop
    tab = tabs.visit(server.url, ready=".key input")
    found = tab.page.evaluate(
        """async () => {
            const { layout } = await import("/ui/layout.js");
            let seed = 7;
            const random = (below) => (seed = (seed * 48271) % 2147483647) % below;
            const near = (one, other) => one.along === other.along && Math.abs(one.at - other.at) < 4 - 1e-6;
            const wrong = [];
            for (let round = 0; round < 60; round += 1) {
                const nodes = [];
                for (let at = 0; at < 2 + random(14); at += 1) {
                    const ups = at < 2 ? [] : [...new Set([random(at), random(at)].slice(random(2)))];
                    nodes.push({ name: `n${at}`, upstreams: ups.map((up) => `n${up}`) });
                }
                const { cells, lines } = layout(nodes, 10, 4);
                if (cells.length !== nodes.length) wrong.push("lost");
                for (const one of cells) for (const other of cells) {
                    if (one !== other && near(one, other)) wrong.push("meet");
                }
                for (const { from, to, points } of lines) {
                    if (points[0].node.name !== from || points.at(-1).node.name !== to) wrong.push("ends");
                    for (let at = 1; at < points.length; at += 1) {
                        if (points[at].along <= points[at - 1].along) wrong.push("back");
                    }
                    for (const bend of points.slice(1, -1)) for (const cell of cells) {
                        if (near(cell, bend)) wrong.push("through");
                    }
                }
                const edges = nodes.reduce((sum, node) => sum + node.upstreams.length, 0);
                if (lines.length !== edges) wrong.push("lines");
            }
            return wrong;
        }"""
    )
    assert found == []
