"""What every page of ours begins and ends with: a file that fetches nothing, in the colours that the reader chooses."""

from __future__ import annotations

import json
import zlib
from base64 import b64encode
from collections.abc import Iterator
from html import escape
from importlib.resources import files

POLICY = "default-src 'none'; script-src 'unsafe-inline'; style-src 'unsafe-inline'"
"""Content security policy: a browser that opens the page fetches nothing."""


def asset(name: str, package: str = __package__) -> str:
    """Return the text of a file in the folder `assets` of a package."""
    return files(package).joinpath("assets", name).read_text(encoding="utf-8")


def opening(title: str, style: str = "") -> Iterator[str]:
    """Yield the page up to its header. style: beside that of all pages."""
    shown = escape(title)
    yield '<!doctype html><html lang="en"><head><meta charset="utf-8">'
    yield f'<meta http-equiv="Content-Security-Policy" content="{POLICY}">'
    yield '<meta name="viewport" content="width=device-width, initial-scale=1">'
    yield f"<title>{shown}</title><style>{asset('page.css')}{style}</style></head><body>"
    yield f"<header><h1>{shown}</h1>{asset('theme.html')}</header>"


def closing(data: object, script: str) -> Iterator[str]:
    """Yield the end of the main part, the data, and the program that draws them."""
    yield f'</main><script type="application/octet-stream" id="data">{packed(data)}</script>'
    yield f"<script>{script}</script></body></html>"


def packed(data: object) -> str:
    """Return JSON values, compressed by zlib, in base64."""
    text = json.dumps(data, ensure_ascii=False, separators=(",", ":"), allow_nan=False)
    return b64encode(zlib.compress(text.encode("utf-8", "replace"), 9)).decode("ascii")
