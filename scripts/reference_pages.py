"""Write docs/reference/names.md and docs/reference/settings.md, from the code.

python -m scripts.reference_pages            writes them
python -m scripts.reference_pages --check    exit status 1 if a page is another
"""

from __future__ import annotations

import sys
from pathlib import Path

from scripts.reference import names, settings

FOLDER = Path(__file__).parent.parent / "docs" / "reference"
PAGES = {"names.md": names.page, "settings.md": settings.page}


def main(arguments: list[str]) -> int:
    """Write or check the pages."""
    stale = []
    for name, page in PAGES.items():
        path, made = FOLDER / name, page()
        if not path.exists() or path.read_text(encoding="utf-8") != made:
            stale.append(name)
            if "--check" not in arguments:
                path.write_text(made, encoding="utf-8")
    print(f"{', '.join(stale) or 'no page'} changed")
    return int("--check" in arguments and bool(stale))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
