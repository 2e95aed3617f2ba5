"""What an upgrade would do, as a value that can be shown. Making one changes nothing."""

from __future__ import annotations

from dataclasses import dataclass

from rechannel.model.codec import Json, encode
from rechannel.model.text import Text

STAYS, NEW, GONE, RENAMED, CHANGED, CONVERTED = (
    "stays",
    "new",
    "gone",
    "renamed",
    "changed",
    "converted",
)
"""What may become of a part of a program."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """One node of the program, and what becomes of it."""

    kind: str
    """source, operator, function or sink."""
    name: str
    """Its name in the new program; of what is gone, the old one."""
    becomes: str
    """In one word: stays, new, gone, renamed, changed or converted."""
    detail: str = ""
    """In words."""


@dataclass(frozen=True, slots=True, kw_only=True)
class UpgradePlan:
    """What `start(upgrade=True)` would do."""

    base: int
    """Version of the dataflow that runs now."""
    version: int
    """Version that takes over; the same if nothing changes."""
    parts: tuple[Part, ...]
    """Every node, in the order of the program; what is gone comes last."""
    notes: tuple[str, ...] = ()
    """What else there is to know, a sentence each."""

    def __bool__(self) -> bool:
        """Whether anything changes."""
        return self.version != self.base

    def to_json(self) -> dict[str, Json]:
        """Return plain JSON values."""
        made: dict[str, Json] = encode(self)
        return made

    def __str__(self) -> str:
        """As a table."""
        if not self:
            return f"Nothing to upgrade: {' '.join(self.notes)}"
        widths = [
            max(len(getattr(part, name)) for part in self.parts)
            for name in ("kind", "name", "becomes")
        ]
        lines = [
            f"Version {self.version} of the dataflow would take over from version {self.base}:"
        ]
        for part in self.parts:
            cells = (part.kind, part.name, part.becomes)
            head = "  ".join(cell.ljust(width) for cell, width in zip(cells, widths, strict=True))
            lines.append(f"  {head}  {part.detail}".rstrip())
        return "\n".join([*lines, *self.notes])

    def __repr__(self) -> str:
        return str(self)

    def _repr_html_(self) -> str:
        return Text(self)._repr_html_()
