"""How far a journal was known to go, told beside it: so that entries which are gone at its end are missed.

A gap in the journal shows by itself, and an end that is cut off does not. So a driver says in `lease.json`, every time
it gives a sign, and in `head.json`, when it ends, which entry was the latest. Neither is needed to go on.
"""

from __future__ import annotations

from rechannel.errors import DamagedStateError
from rechannel.state.keys import HEAD
from rechannel.state.sealed import seal, unseal
from rechannel.state.store import Store

FORMAT = 1
"""Version of the format of the head; readers refuse later ones."""


def write_head(store: Store, number: int) -> None:
    """Say that the journal goes to an entry."""
    store.put(HEAD, seal({"format": FORMAT, "number": number}))


def read_head(store: Store) -> int:
    """The entry that the driver which ended last knew of; 0 where nothing, or nothing intact, says so."""
    try:
        number: int = unseal(store.read(HEAD), name=HEAD, newest=FORMAT)["number"]
    except DamagedStateError:
        return 0
    return number
