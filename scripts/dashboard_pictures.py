"""Take the pictures of the dashboard that the docs show.

    make picture

Needs the extra `browser`, and Chromium: CHROMIUM=PATH names one that is not on the PATH.
"""

from __future__ import annotations

import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from playwright.sync_api import Browser, Page

import rechannel as rc
from rechannel.running import RunningJob
from scripts.chromium import chromium
from tests.support import busy_shop

ROOT = Path(__file__).parent.parent
IMAGES = ROOT / "docs" / "images"
WIDTH, HEIGHT = 1_280, 1_500
PHONE = {"width": 390, "height": 844}
PATIENCE_MS = 240_000
INTERVAL_MS, ROWS = 1_000, 6_000


def main() -> int:
    """Take the pictures, and return the exit status."""
    with tempfile.TemporaryDirectory() as folder, chromium() as browser:
        job = busy_shop.start(Path(folder) / "state", interval_ms=INTERVAL_MS, rows=ROWS)
        try:
            with job.serve(port=0) as server:
                _take(browser, job, server.url, server.token)
        finally:
            job.stop()
    return 0


def _take(browser: Browser, job: RunningJob, url: str, token: str) -> None:
    page = _entered(
        browser, url, token, viewport={"width": WIDTH, "height": HEIGHT}, color_scheme="light"
    )
    page.locator(".critical .stack span").first.wait_for()
    _wait(lambda: job.status.timestep > 20)
    change = job.reconfigure(
        rc.changes.rescale("customers", tasks=6),
        rc.strategies.fluid(bins=4, gap=1),
        cause="the evening is busy",
    )
    _wait(lambda: change.summary().bins >= 24)
    page.wait_for_timeout(2_500)
    _shoot(page, "dashboard")
    change.wait(120)
    form = page.locator("form.change")
    form.locator("#change-operator").fill("visitors")
    form.locator("#change-tasks").fill("5")
    form.locator("[name=strategy]").select_option("fluid")
    form.locator("#strategy-budget_ms").fill("20")
    form.locator("[name=cause]").fill("sale on Friday")
    form.get_by_role("button", name="Plan", exact=True).click()
    form.locator(".plan").wait_for()
    form.screenshot(path=IMAGES / "dashboard-plan.png")
    print("wrote docs/images/dashboard-plan.png")
    phone = _entered(
        browser, url, token, viewport=PHONE, color_scheme="dark", device_scale_factor=2
    )
    phone.locator(".critical .stack span").first.wait_for()
    phone.wait_for_timeout(1_500)
    _shoot(phone, "dashboard-phone")


def _entered(browser: Browser, url: str, token: str, **context: object) -> Page:
    page = browser.new_page(reduced_motion="reduce", **context)
    page.set_default_timeout(PATIENCE_MS)
    page.goto(url)
    page.locator(".key input").fill(token)
    page.keyboard.press("Enter")
    page.locator("#dataflow .node").first.wait_for()
    return page


def _shoot(page: Page, name: str) -> None:
    path = IMAGES / f"{name}.png"
    page.screenshot(path=path)
    print(f"wrote {path.relative_to(ROOT)}")


def _wait(holds: Callable[[], bool]) -> None:
    deadline = time.monotonic() + PATIENCE_MS / 1e3
    while not holds():
        if time.monotonic() > deadline:
            msg = "the job does not get on"
            raise TimeoutError(msg)
        time.sleep(0.1)


if __name__ == "__main__":
    sys.exit(main())
