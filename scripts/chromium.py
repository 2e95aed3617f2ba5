"""The Chromium that takes pictures for the docs. Needs the extra `browser`."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from playwright.sync_api import Browser


@contextmanager
def chromium() -> Iterator[Browser]:
    """Open Chromium: that of CHROMIUM=PATH, or the one on the PATH. Raises SystemExit if there is none."""
    path = os.environ.get("CHROMIUM") or shutil.which("chromium")
    if path is None:
        raise SystemExit("there is no Chromium: apt-get install chromium, or set CHROMIUM=PATH")
    from playwright.sync_api import sync_playwright

    flags = ["--no-sandbox"] if os.geteuid() == 0 else []
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=path, args=flags)
        try:
            yield browser
        finally:
            browser.close()
