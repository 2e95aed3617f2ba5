"""Where metrics and traces of a job go: what `job.export` takes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from rechannel.errors import RefusedError, SetUpError
from rechannel.exporting.error_texts import ErrorText

if TYPE_CHECKING:
    from opentelemetry.metrics import MeterProvider
    from opentelemetry.trace import TracerProvider

SCOPE = "rechannel"
"""Name of the meter and of the tracer: the instrumentation scope."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OpenTelemetry:
    """Metrics of a job, and traces of its timesteps, for the providers that the program has set up.

    Rechannel starts no exporter: what becomes of spans and metrics is up to the processors and readers of the
    providers. Needs `pip install 'rechannel[otel]'`.

    Raises:
        SetUpError: the package `opentelemetry-api` is not installed.
        RefusedError: an argument is out of its range.
    """

    tracer_provider: TracerProvider | None = None
    """None = the global one."""
    meter_provider: MeterProvider | None = None
    """None = the global one."""
    traces: bool = True
    """Whether timesteps and reconfigurations become spans."""
    metrics: bool = True
    """Whether there are metrics."""
    tasks: int = 1
    """How many tasks of each operator have a span of their own in a timestep: the ones that were busy longest."""
    errors: str = ErrorText.LINE
    """What spans have of an error: "class" = the name of its class alone; "line" = its first line, too, up to 500
    bytes; "text" = all of it, up to 16 KiB. What a function of yours raises may hold values of rows.
    """

    def __post_init__(self) -> None:
        """Check the arguments."""
        try:
            import opentelemetry.trace  # noqa: F401
        except ImportError as error:
            msg = "exporting to OpenTelemetry needs its API: pip install 'rechannel[otel]'"
            raise SetUpError(msg) from error
        if isinstance(self.tasks, bool) or not isinstance(self.tasks, int) or self.tasks < 0:
            msg = f"tasks={self.tasks!r}: how many tasks have a span must be a whole number, 0 or more"
            raise RefusedError(msg)
        known = [each.value for each in ErrorText]
        if self.errors not in known:
            msg = f"errors={self.errors!r}: what spans have of an error must be one of {known}"
            raise RefusedError(msg)
        if not (self.traces or self.metrics):
            msg = "traces=False and metrics=False: nothing would be exported; leave one of them out"
            raise RefusedError(msg)
