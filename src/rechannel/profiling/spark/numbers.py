"""Numbers of event logs."""

from __future__ import annotations

from typing import Annotated

import msgspec

LARGEST = (1 << 62) - 1
"""Numbers beyond this, and below its negative, are not understood: sums of two have 64 bits."""

Number = Annotated[int, msgspec.Meta(ge=-LARGEST, le=LARGEST)]
"""A whole number of a log."""
