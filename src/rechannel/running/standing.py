"""How a job stands, from what its telemetry has at hand: nothing is asked of a source, a store or Spark. Pure."""

from __future__ import annotations

from collections.abc import Iterable

from rechannel.model.configuration import Configuration
from rechannel.monitoring import OperatorStatus, SourceLag
from rechannel.telemetry.facts import TimestepProgress
from rechannel.telemetry.lag import lag_now
from rechannel.telemetry.totals import OperatorTotals, Sums


def lags_of(
    sources: Iterable[str], last: TimestepProgress | None, now_ms: float
) -> dict[str, SourceLag]:
    """Return the lag of a stream at each source; of one that no timestep has looked at, nothing is known."""
    known = {} if last is None else last.lag
    return {
        name: lag_now(known.get(name, SourceLag(at_ms=int(now_ms))), now_ms) for name in sources
    }


def operators_of(
    configuration: Configuration, last: TimestepProgress | None, sums: Sums, now_ms: float
) -> dict[str, OperatorStatus]:
    """Return the status of each operator. sums: since the driver started."""
    progress = {} if last is None else last.operators
    made = {}
    for name, operator in configuration.operators.items():
        found, total = progress.get(name), sums.operators.get(name, OperatorTotals())
        watermark_ms = None if found is None else found.watermark_ms
        made[name] = OperatorStatus(
            tasks=operator.tasks,
            state_rows=None if found is None else found.state_rows,
            state_bytes=None if found is None else found.state_bytes,
            rows_late=total.rows_late,
            rows_dead=total.rows_dead,
            watermark_ms=watermark_ms,
            event_time_lag_s=None
            if watermark_ms is None
            else round((now_ms - watermark_ms) / 1e3, 3),
        )
    return made
