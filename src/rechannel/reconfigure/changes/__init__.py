"""Changes of a running stream as values, one file per family.

Importing a family registers its changes; its `__all__` lists what users write in Python.
"""

from __future__ import annotations

from rechannel.reconfigure.changes import (
    bins,
    pace,
    program,
    resources,
    spreading,
    tasks,
    together,
)
from rechannel.reconfigure.changes.bins import *  # noqa: F403
from rechannel.reconfigure.changes.pace import *  # noqa: F403
from rechannel.reconfigure.changes.program import *  # noqa: F403
from rechannel.reconfigure.changes.resources import *  # noqa: F403
from rechannel.reconfigure.changes.spreading import *  # noqa: F403
from rechannel.reconfigure.changes.tasks import *  # noqa: F403
from rechannel.reconfigure.changes.together import *  # noqa: F403

__all__: list[str] = []
__all__ += bins.__all__
__all__ += pace.__all__
__all__ += program.__all__
__all__ += resources.__all__
__all__ += spreading.__all__
__all__ += tasks.__all__
__all__ += together.__all__
