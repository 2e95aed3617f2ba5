"""What sources have recorded of their input, where a source gets another name.

Records lie in a folder with the source's name. A start copies them twice: before its driver takes over, since the
source is opened before that, and what is new once the driver before is fenced, which may have recorded more meanwhile.
Then it journals the new name, and removes the records under the old one. A driver that dies in between leaves one copy
too many.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from contextlib import suppress

from rechannel.errors import MissingFileError
from rechannel.sources.input_files.seen import folder_of
from rechannel.state.store import Store


def last_name(old: str, renamed: Mapping[str, str], names: Collection[str]) -> str:
    """Return the name that a source has now. renamed: new names by old ones. names: of the sources that there are."""
    seen, name = {old}, renamed[old]
    while name not in names and name in renamed and name not in seen:
        seen.add(name)
        name = renamed[name]
    return name


def copy_records(
    store: Store, old: str, new: str, *, done: Collection[str] = frozenset()
) -> frozenset[str]:
    """Give a source's records the folder of another name, too, and return the keys there.

    done: keys there that have been written before; a record never changes. A record that the running driver removes
    meanwhile is one that no offset needs any more.
    """
    before, after = folder_of(old), folder_of(new)
    there = frozenset(store.list(after)).intersection(done)
    made = set()
    for key in list(store.list(before)):
        copy = after + key.removeprefix(before)
        if copy not in there:
            with suppress(MissingFileError):
                store.put(copy, bytes(store.read(key)))
                made.add(copy)
    return there | made


def drop_others(store: Store, old: str, new: str) -> None:
    """Remove what lies in a source's new folder and not in its old one."""
    before, after = folder_of(old), folder_of(new)
    mine = {after + key.removeprefix(before) for key in store.list(before)}
    for key in set(store.list(after)) - mine:
        store.delete(key)


def drop_records(store: Store, name: str) -> None:
    """Remove a source's records."""
    for key in list(store.list(folder_of(name))):
        store.delete(key)
