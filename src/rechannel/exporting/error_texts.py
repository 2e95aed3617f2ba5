"""How much of an error's text is exported. Pure.

What an exception of user code says can be long and can hold values of rows, and spans often go to a place that the rows
themselves never reach. So by default a span has the class and the first line.
"""

from __future__ import annotations

from enum import StrEnum

from rechannel.errors import first_sentence, within

LINE_BYTES = 500
TEXT_BYTES = 16_384


class ErrorText(StrEnum):
    """What a span has of an error. Each value has more than the one before."""

    CLASS = "class"
    """The name of its class: nothing that it says."""
    LINE = "line"
    """Its first line, up to `LINE_BYTES` bytes of UTF-8."""
    TEXT = "text"
    """The whole, up to `TEXT_BYTES` bytes."""

    def of(self, text: str) -> str:
        """Return what is exported of what an error says."""
        match self:
            case ErrorText.CLASS:
                return ""
            case ErrorText.LINE:
                return within(first_sentence(text), LINE_BYTES)
            case ErrorText.TEXT:
                return within(text, TEXT_BYTES)
