"""The owner of the output at a path: claimed once, and checked whenever a driver opens it.

    <path>/_rechannel/<owner>/                    the path belongs to this job and sink
    <path>/_rechannel/<owner>/opened-<epoch>-<id>/   the last driver that opened it
    <path>/timestep=<n>/_rechannel-<incarnation>-<digest>/   the incarnation, and the intent that determines the rows

All of these are empty directories: every reader ignores them, and a rename moves them along. The
claim is one rename of a directory that was prepared separately, which fails if the name exists: if
two jobs claim a path at the same time, one is refused.

The number of a timestep says nothing about its rows: a state directory that is restored from an
older copy plans other timesteps under numbers that were already published, and so does a copy that
runs elsewhere. So what the journal knows (`Ledger`) is compared with what is at the path; anything
unknown is refused, and never taken as published.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from urllib.parse import quote

from rechannel.errors import OtherHistoryError, RefusedError
from rechannel.sinks.batch import Batch
from rechannel.sinks.folder import Folder

STAGING = "_rechannel"
TIMESTEP = "timestep"
"""The name under which readers see the timestep, unless the user chooses another one."""

TRIAL = "trial-"
PUBLISHING = "publishing-"
_OPENED = "opened-"
_MARK = "_rechannel-"

CHOICES = (
    "Write to another path, restore the newer state directory, or, on purpose, remove that output with"
    " start(remove_later_output=True)"
)


@dataclass(frozen=True, kw_only=True)
class Ledger:
    """The journal of a driver that opens a sink, as far as a sink needs it."""

    opening: str
    """Id of this driver's `Opened`; "" until there is one: nothing is changed under the path
    before.
    """
    epoch: int
    """Epoch of the latest `Opened`."""
    openings: Mapping[int, str] = field(default_factory=dict)
    """Ids of all that the journal remembers, by epoch."""
    committed: int = 0
    """The last committed timestep."""
    digests: Mapping[int, str] = field(default_factory=dict)
    """Digests of intents, by timestep, as far as they are known."""
    remove_later: bool = False
    """Whether the user wants output removed that the journal does not know."""


def claim(folder: Folder, root: str, owner: str, token: str, column: str = TIMESTEP) -> str:
    """Claim a path for an owner, or check that the owner has it. Returns the directory in which
    the owner stages.

    token: of this driver. column: the name under which readers see the timestep. Raises
    RefusedError if the path holds timesteps of another owner, or another owner claims it.
    """
    staging, mine = f"{root}/{STAGING}", quote(owner, safe="")
    owners = folder.names(staging)
    if not owners and not _published(folder, root, column):
        prepared = f"{root}/{STAGING}-{quote(token, safe='')}"
        folder.make(f"{prepared}/{mine}")
        if not folder.rename(prepared, staging):
            folder.remove(prepared)
        owners = folder.names(staging)
        if not owners:  # an empty directory existed
            folder.make(f"{staging}/{mine}")
            owners = folder.names(staging)
    others = [name for name in owners if name != mine]
    if others or mine not in owners:
        raise RefusedError(_taken(root, others, _published(folder, root, column)))
    return f"{staging}/{mine}"


def _taken(root: str, others: list[str], published: list[int]) -> str:
    whose = f"those of {others[0]}" if others else "and not of this job's state directory"
    if not published:
        return (
            f"{root} is claimed by {others[0]}, which has not published anything there yet: choose another path, or"
            f" remove {root}/{STAGING} if that job will not start again"
        )
    return (
        f"{root} already holds timesteps, {whose}. Their numbers would be mistaken for"
        " this job's: choose another path, or remove that directory if it is not needed"
    )


def check(
    folder: Folder,
    root: str,
    own: str,
    ledger: Callable[[], Ledger],
    *,
    column: str = TIMESTEP,
) -> None:
    """Compare what is at a path with the journal, and record this driver there once the journal
    has it.

    own: the directory that `claim` returned. ledger: called after the path was read, since an
    earlier incarnation of the sink may still publish. Raises RefusedError.
    """
    published = _published(folder, root, column)
    opened = [name for name in folder.names(own) if name.startswith(_OPENED)]
    known = ledger()
    paths = {number: f"{root}/{published_name(number, column)}" for number in published}
    strange = [n for n in published if n > known.committed or _differs(folder, paths[n], n, known)]
    strangers = [name for name in opened if _is_strange(name.removeprefix(_OPENED), known)]
    if (strange or strangers) and not known.remove_later:
        raise RefusedError(_refusal(root, strange, known))
    if not known.opening:
        return
    for number in strange:
        folder.remove(paths[number])
    word = f"{_OPENED}{known.epoch}-{known.opening}"
    if word not in opened:
        folder.make(f"{own}/{word}")
    for name in opened:
        if name != word:
            folder.remove(f"{own}/{name}")


def _is_strange(word: str, known: Ledger) -> bool:
    """Return whether a driver opened the path that the journal has never had. Epochs that it does
    not remember are its own.
    """
    epoch, _, who = word.partition("-")
    if not (who and epoch.isdecimal()):  # older versions wrote the id alone
        return word not in known.openings.values()
    return int(epoch) > known.epoch or known.openings.get(int(epoch), who) != who


def _refusal(root: str, strange: list[int], known: Ledger) -> str:
    if strange:
        first, last = min(strange), max(strange)
        what = f"timestep {first}" if first == last else f"timesteps {first} to {last}"
        found = f"{root} holds {what} that this state directory does not know"
    else:
        found = f"{root} was opened by a driver that this state directory does not know"
    return (
        f"{found}: its last commit is timestep {known.committed}, so it was restored from an older copy, or another"
        f" copy of it is running. {CHOICES}"
    )


def _differs(folder: Folder, path: str, number: int, known: Ledger) -> bool:
    expected = known.digests.get(number)
    marks = marks_of(folder, path) if expected else []
    return bool(marks) and not any(mark.endswith(f"-{expected}") for mark in marks)


def mark_of(batch: Batch) -> str | None:
    """Return the name of the directory that identifies the batch of the files next to it; None if
    it is unknown.
    """
    return f"{_MARK}{quote(batch.incarnation, safe='')}-{batch.digest}" if batch.digest else None


def marks_of(folder: Folder, path: str) -> list[str]:
    """Return the marks of the batches whose files are in a directory."""
    return [name for name in folder.names(path) if name.startswith(_MARK)]


def is_of(folder: Folder, target: str, batch: Batch) -> bool:
    """Return whether an existing directory contains this very batch.

    Output of older versions, whose journals did not have digests either, is taken as published.
    """
    mark = mark_of(batch)
    return mark is None or mark in marks_of(folder, target)


def check_published(folder: Folder, target: str, batch: Batch) -> None:
    """Check that an existing directory contains this very batch. Raises OtherHistoryError."""
    if is_of(folder, target, batch):
        return
    msg = (
        f"{target} already exists and is not what this job committed as timestep {batch.timestep}: another copy of"
        " the state directory has published it, or it was made by hand. Write to another path, restore the newer"
        " state directory, or move that directory away and start again"
    )
    raise OtherHistoryError(msg)


def published_name(timestep: int, column: str = TIMESTEP) -> str:
    """Return the name of a timestep's directory; Spark reads it as a column of that name."""
    return f"{column}={timestep:012d}"


def is_staged(name: str) -> bool:
    """Return whether a name in an owner's directory is that of a staged timestep."""
    return not name.startswith((_OPENED, TRIAL, PUBLISHING))


def _published(folder: Folder, root: str, column: str) -> list[int]:
    """Return the numbers of the timesteps that readers see, ascending."""
    start = f"{column}="
    digits = (name.removeprefix(start) for name in folder.names(root) if name.startswith(start))
    return sorted(int(number) for number in digits if number.isdecimal())
