"""As-of joins, naively: see `twins`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from tests.property.twin_joins import Join, Kept
from tests.property.twin_values import Row, plain
from tests.property.twins import tie


@dataclass(eq=False, kw_only=True)
class Asof(Join):
    """Left rows with the last right row of their key that is not after them. tolerance: ms, None = any."""

    tolerance: int | None

    @property
    def bounded(self) -> bool:
        return True

    def build(self, *inputs: Any) -> Any:
        left, right = self.timed(inputs)
        tolerance = self.tolerance
        return left.asof_join(right, self.on, how=self.how, tolerance=tolerance, **self.options)

    def run(self, stream_ms: int, timestep: int, *inputs: list[Row]) -> list[Row]:
        before = self.watermark
        came, late = self._came(timestep, inputs, before)
        self._advance()
        self.late = self._in_order(late)
        touched = {one.text for one in came} | {repr(list(map(plain, key))) for key, _ in late}
        usable = [e for e in came if None not in e.key or (e.side == 0 and self.how == "left")]
        both = [*self.kept, *usable]
        shown = []
        for one in both:
            if one.side == 0 and self._passed(one):
                found = self._last_before(one, both)
                if found is not None or self.how == "left":
                    shown.append((one, self._row(one.key, one, found)))
        self.kept = [e for e in both if self._needed(e, both)]
        places = [(e.text not in touched, tie(e.key), e.time, e.number) for e, _ in shown]
        return self._placed([e.key for e, _ in shown], places, [row for _, row in shown])

    def _passed(self, one: Kept) -> bool:
        assert one.time is not None
        return self.watermark is not None and one.time < self.watermark

    def _last_before(self, one: Kept, both: list[Kept]) -> Kept | None:
        candidates = [
            other
            for other in both
            if other.side == 1
            and None not in one.key
            and other.text == one.text
            and self._near(one, other)
        ]
        return max(candidates, key=lambda other: (other.time, other.number), default=None)

    def _near(self, left: Kept, right: Kept) -> bool:
        assert left.time is not None
        assert right.time is not None
        apart = left.time - right.time
        return apart >= 0 and (self.tolerance is None or apart <= self.tolerance)

    def _needed(self, one: Kept, both: list[Kept]) -> bool:
        """Rows that wait, or may be met."""
        if self.watermark is None:
            return True
        assert one.time is not None
        if one.side == 0:
            return not self._passed(one)
        if self.tolerance is not None and one.time + self.tolerance < self.watermark:
            return False
        return not any(
            other.side == 1
            and other.text == one.text
            and (other.time, other.number) > (one.time, one.number)
            and other.time <= self.watermark
            for other in both
            if other.time is not None
        )
