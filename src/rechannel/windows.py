"""Windows: `stream.key_by("user").window(rc.windows.tumbling("10 seconds"))`, `join(..., within=rc.windows...)`."""

from __future__ import annotations

from rechannel.dataflow.streams.windowing import counting, same_window, sessions, sliding, tumbling

__all__ = ["counting", "same_window", "sessions", "sliding", "tumbling"]
