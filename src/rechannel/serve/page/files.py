"""The files of the page: ours, those that other pages of ours have too, and the libraries that lie in `vendor/`.

A file is read once and is then the same for every request. None of them knows anything of the job: what the page shows,
it asks for with the token that its reader types.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from types import MappingProxyType

from rechannel.profiling.report.shell import asset
from rechannel.scaling.report import page as advice

PREFIX = "/ui/"
ROOT = "/"

KINDS = {
    ".css": "text/css; charset=utf-8",
    ".html": "text/html; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".mjs": "text/javascript; charset=utf-8",
    ".svg": "image/svg+xml",
}
"""Media types by the ending of a name. Files with other endings, such as licences, are not served."""

SHARED = "export { byId, inks, numbered, percent, startTheme };\n"
"""What the page uses of the scripts that pages in files have as parts of one function."""

HEADERS: Mapping[str, str] = MappingProxyType(
    {
        "Content-Security-Policy": (
            "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self';"
            " base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
        ),
        "Cache-Control": "no-cache",
        "Cross-Origin-Opener-Policy": "same-origin",
        "Cross-Origin-Resource-Policy": "same-origin",
        "Referrer-Policy": "no-referrer",
        "X-Content-Type-Options": "nosniff",
    }
)
"""Of every file: nothing is fetched from elsewhere, no script lies in a page, and no other page frames this one."""


@dataclass(frozen=True, slots=True)
class PageFile:
    """A file as it is sent."""

    text: str
    media_type: str


@cache
def page_files() -> Mapping[str, PageFile]:
    """Return the files by the path of their address."""
    made = dict(_own())
    made[f"{PREFIX}page.css"] = _file("page.css", asset("page.css"))
    made[f"{PREFIX}charts.css"] = _file("charts.css", asset("charts.css", advice.__package__))
    words = "\n".join([asset("words.js"), asset("theme.js"), SHARED])
    made[f"{PREFIX}shared.js"] = _file("shared.js", words)
    made[ROOT] = made.pop(f"{PREFIX}index.html")
    return MappingProxyType(made)


def _own() -> Iterator[tuple[str, PageFile]]:
    for folder in ("assets", "vendor"):
        for each in files(__package__).joinpath(folder).iterdir():
            if _ending(each.name) in KINDS:
                text = each.read_text(encoding="utf-8")
                if each.name == "index.html":
                    text = text.replace("<!-- theme -->", asset("theme.html"))
                yield PREFIX + each.name, _file(each.name, text)


def _file(name: str, text: str) -> PageFile:
    return PageFile(text, KINDS[_ending(name)])


def _ending(name: str) -> str:
    return f".{name.rpartition('.')[2]}"
