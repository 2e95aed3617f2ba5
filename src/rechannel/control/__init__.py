"""Controllers: programs that run inside a stream, watch its tasks, and change it. See docs/controllers.md."""

from rechannel.control import library
from rechannel.control.controller import (
    Control,
    Controller,
    Installation,
    Outcome,
    TaskReply,
    install,
)
from rechannel.control.loading import ImportPath
from rechannel.control.operation import Operation, operation
from rechannel.control.triggers import Trigger, by_hand, every, on, when
from rechannel.kernels.protocol.control import (
    ControlChannel,
    HeavyKey,
    OperatorHandler,
    TaskView,
)

__all__ = [
    "Control",
    "ControlChannel",
    "Controller",
    "HeavyKey",
    "ImportPath",
    "Installation",
    "Operation",
    "OperatorHandler",
    "Outcome",
    "TaskReply",
    "TaskView",
    "Trigger",
    "by_hand",
    "every",
    "install",
    "library",
    "on",
    "operation",
    "when",
]
