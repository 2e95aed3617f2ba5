"""What specs of windows that close have in common: by which time they go, and whether they are corrected.

The fields are those of each spec: digests in journals have them in its own order.
"""

from __future__ import annotations

from rechannel.operators.spec import INSERTS, OperatorSpec


class ClosingSpec(OperatorSpec):
    """Windows that are complete at some time."""

    lateness_us: int
    on_close: bool
    early_ms: int | None

    @property
    def needs_time(self) -> bool:
        """Whether windows go by the rows' own time."""
        return not self.processing

    @property
    def corrects(self) -> bool:
        """Whether late rows, or rows of an incomplete window, emit it again."""
        return bool(self.lateness_us or not self.on_close or self.early_ms)

    @property
    def unchanging(self) -> str | None:
        """Return why no window is emitted again; None = some are."""
        if self.corrects:
            return None
        return (
            f"it emits a window once, when the window closes. {INSERTS}; or give it emit='on_update' or lateness=, with"
            " which windows change"
        )


class ClosingSessionSpec(ClosingSpec):
    """Windows that are complete when no rows have come for long enough."""

    gap_us: int
    on: str | None

    @property
    def processing(self) -> bool:
        """Whether sessions go by the time of timesteps."""
        return self.on is None
