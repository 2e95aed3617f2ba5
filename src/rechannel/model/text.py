"""Text of several lines, shown as it reads."""

from __future__ import annotations

from html import escape


class Text(str):
    """A text whose `repr` is the text itself, so that a shell and a notebook show its lines."""

    __slots__ = ()

    def __repr__(self) -> str:
        return str(self)

    def _repr_html_(self) -> str:
        return f"<pre>{escape(self)}</pre>"
