"""What user functions receive.

`Rows` are those of one key (`track`, `process`); `Context` and `Timer` are what `process` has beside them, and
`BroadcastTable` what a context has of a broadcast input; `KeyedFrame` (`track_batches`), `ProcessFrame`
(`process_batches`) and `GroupFrame` (`apply_batches`) hold many keys.
"""

from __future__ import annotations

from rechannel.kernels.functions.broadcast import BroadcastTable
from rechannel.kernels.functions.python_rows import Rows
from rechannel.operators.process.context import Context, Timer
from rechannel.operators.process.process_frame import ProcessFrame
from rechannel.operators.process.track_frame import KeyedFrame
from rechannel.operators.window.group_frame import GroupFrame

__all__ = [
    "BroadcastTable",
    "Context",
    "GroupFrame",
    "KeyedFrame",
    "ProcessFrame",
    "Rows",
    "Timer",
]
