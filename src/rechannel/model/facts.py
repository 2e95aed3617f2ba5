"""`Facts`: the base of values that users read, such as a job's status."""

from __future__ import annotations

from typing import Any, TypeVar

from rechannel.model.codec import decode, encode
from rechannel.model.html import table

F = TypeVar("F", bound="Facts")


class Facts:
    """A frozen dataclass of plain values: readable as attributes, as a dict and, in a notebook, as a table."""

    __slots__ = ()

    def to_dict(self) -> dict[str, Any]:
        """Return the fields as plain JSON values."""
        fields: dict[str, Any] = encode(self)
        return fields

    @classmethod
    def from_dict(cls: type[F], fields: dict[str, Any]) -> F:
        """Invert `to_dict`. Raises KeyError, TypeError or ValueError for other fields."""
        return decode(cls, fields)

    def _repr_html_(self) -> str:
        return table(type(self).__name__, self.to_dict())
