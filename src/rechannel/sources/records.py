"""What sources have recorded of their input, where a source gets another name.

Records lie in a folder with the source's name. They are copied before the new name is journalled, since the source is
opened before that, and removed under the old name after it. A driver that dies in between leaves one copy too many.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping

from rechannel.sources.input_files.seen import folder_of
from rechannel.state.store import Store


def last_name(old: str, renamed: Mapping[str, str], names: Collection[str]) -> str:
    """Return the name that a source has now. renamed: new names by old ones. names: of the sources that there are."""
    seen, name = {old}, renamed[old]
    while name not in names and name in renamed and name not in seen:
        seen.add(name)
        name = renamed[name]
    return name


def copy_records(store: Store, old: str, new: str) -> None:
    """Give a source's records the folder of another name, too."""
    before, after = folder_of(old), folder_of(new)
    for key in list(store.list(before)):
        store.put(after + key.removeprefix(before), bytes(store.read(key)))


def drop_records(store: Store, name: str) -> None:
    """Remove a source's records."""
    for key in list(store.list(folder_of(name))):
        store.delete(key)
