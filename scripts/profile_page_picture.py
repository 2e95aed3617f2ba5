"""Take the picture of a profile's page that the docs show.

    make picture

Needs the extra `browser`, and Chromium: CHROMIUM=PATH names one that is not on the PATH.
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

import rechannel as rc
from rechannel.profiling.report.page import write_page
from scripts.chromium import chromium

ROOT = Path(__file__).parent.parent
LOG = ROOT / "docs" / "examples" / "word-count.zstd"
PICTURE = ROOT / "docs" / "images" / "profile-page.png"
WIDTH, HEIGHT = 1_160, 1_080
ZOOMS = 3
"""How often the wheel is turned, so that single batches can be seen."""


def main() -> int:
    """Take the picture, and return the exit status."""
    with tempfile.TemporaryDirectory() as folder, chromium() as browser:
        page = Path(folder) / "page.html"
        write_page(rc.profile(LOG, since="15 seconds"), page)
        tab = browser.new_page(
            viewport={"width": WIDTH, "height": HEIGHT},
            color_scheme="light",
            reduced_motion="reduce",
        )
        tab.goto(page.as_uri())
        tab.locator("#legend button").first.wait_for()
        box = tab.locator("#lanes").bounding_box()
        if box is not None:
            tab.mouse.move(box["x"] + 0.6 * box["width"], box["y"] + 8)
            for _ in range(ZOOMS):
                tab.mouse.wheel(0, -300)
            tab.mouse.move(4, 4)
        tab.wait_for_timeout(300)
        tab.screenshot(path=PICTURE)
    print(f"wrote {PICTURE.relative_to(ROOT)}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
