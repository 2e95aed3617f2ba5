"""A real Chromium. These tests need the extra `browser`, and Chromium: `apt-get install chromium`, or CHROMIUM=PATH."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

PATIENCE = 60_000
"""How long an element is waited for, ms."""

NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")


def chromium() -> str | None:
    """The browser of this machine."""
    given = os.environ.get("CHROMIUM")
    return given or next(filter(None, map(shutil.which, NAMES)), None)


@dataclass(kw_only=True)
class Tab:
    """A page that is open, and what it complained of and asked for."""

    page: Page
    allowed: str
    """What the address of everything that it asks for begins with."""
    complaints: list[str] = field(default_factory=list)
    requests: list[str] = field(default_factory=list)

    def hear(self, message: str) -> None:
        """Keep a message of the console, unless the test caused it by looking at pixels."""
        if "readback" not in message:
            self.complaints.append(message)

    def middle(self, selector: str, across: float = 0.5, down: float = 0.5) -> tuple[float, float]:
        """A point in an element."""
        self.page.locator(selector).scroll_into_view_if_needed()
        box = self.page.locator(selector).bounding_box()
        assert box is not None, selector
        return box["x"] + across * box["width"], box["y"] + down * box["height"]

    def view(self) -> tuple[float, float]:
        """The part of the time that the timeline shows, ns, when everything is drawn."""
        self.settle()
        start, end = self.page.evaluate("[frame.dataset.start, frame.dataset.end].map(Number)")
        return start, end

    def settle(self) -> None:
        """Wait until what was asked for is drawn."""
        self.page.evaluate(
            "new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)))"
        )


@pytest.fixture(scope="session")
def browser() -> Iterator[Browser]:
    sync = pytest.importorskip(
        "playwright.sync_api", reason="needs Playwright: pip install 'rechannel[browser]'"
    )
    path = chromium()
    if path is None:
        pytest.skip("needs Chromium: apt-get install chromium, or CHROMIUM=/path/to/it")
    # Chromium's sandbox does not work for root.
    flags = ["--no-sandbox"] if os.geteuid() == 0 else []
    with sync.sync_playwright() as playwright:
        opened: Browser = playwright.chromium.launch(executable_path=path, args=flags)
        yield opened
        opened.close()


class Tabs:
    """Opens pages, and checks at the end that none of them complained or fetched anything."""

    def __init__(self, browser: Browser, folder: Path) -> None:
        self.browser, self.folder, self.opened = browser, folder, list[Tab]()

    def open(
        self,
        text: str,
        *,
        width: int = 1_280,
        height: int = 900,
        ready: str = "#legend button",
        **options: Any,
    ) -> Tab:
        """Open a page from a file. ready: what is there when it is drawn. options: of the browser's context."""
        file = self.folder / f"{len(self.opened)}.html"
        file.write_text(text, encoding="utf-8")
        tab = self._tab(file.as_uri(), width, height, options)
        tab.page.goto(file.as_uri())
        tab.page.locator(ready).first.wait_for()
        tab.settle()
        return tab

    def visit(
        self, url: str, *, width: int = 1_280, height: int = 900, ready: str, **options: Any
    ) -> Tab:
        """Open a page that a server has. It may ask that server for more."""
        tab = self._tab(f"{url}/", width, height, options)
        tab.page.goto(url)
        tab.page.locator(ready).first.wait_for()
        return tab

    def _tab(self, allowed: str, width: int, height: int, options: dict[str, Any]) -> Tab:
        size = {"width": width, "height": height}
        page = self.browser.new_page(viewport=size, reduced_motion="reduce", **options)
        tab = Tab(page=page, allowed=allowed)
        self.opened.append(tab)
        page.on("console", lambda message: tab.hear(message.text))
        page.on("pageerror", lambda error: tab.complaints.append(str(error)))
        page.on("request", lambda request: tab.requests.append(request.url))
        page.set_default_timeout(PATIENCE)
        return tab


@pytest.fixture
def tabs(browser: Browser, tmp_path: Path) -> Iterator[Tabs]:
    made = Tabs(browser, tmp_path)
    yield made
    for tab in made.opened:
        assert tab.complaints == []
        assert tab.requests[0] == tab.allowed
        if tab.allowed.startswith("file:"):
            assert len(tab.requests) == 1
        assert all(url.startswith(tab.allowed) for url in tab.requests)
        tab.page.close()
