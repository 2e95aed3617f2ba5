"""Record the latest journal entry outside of the journal, so that entries missing at its end are noticed.

A gap in the journal is visible, a truncated end is not. So a driver writes the number of the latest entry to
`lease.json` with every heartbeat and to `head.json` when it ends. Neither file is needed to continue.
"""

from __future__ import annotations

from rechannel.errors import DamagedStateError
from rechannel.state.keys import HEAD
from rechannel.state.sealed import seal, unseal
from rechannel.state.store import Store

FORMAT = 1
"""Version of the format of the head; readers refuse later ones."""


def write_head(store: Store, number: int) -> None:
    """Record the latest entry of the journal."""
    store.put(HEAD, seal({"format": FORMAT, "number": number}))


def read_head(store: Store) -> int:
    """Return the latest entry that the last driver recorded; 0 if the file is missing or damaged."""
    try:
        number: int = unseal(store.read(HEAD), name=HEAD, newest=FORMAT)["number"]
    except DamagedStateError:
        return 0
    return number
