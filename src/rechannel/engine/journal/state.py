"""What the journal says so far, as a value: the fold of its entries (`folds`, which has the rules). Pure.

The latest `keep_versions` committed timesteps are kept as versions; they share their runs.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from types import MappingProxyType

from msgspec import Struct, field
from msgspec.structs import force_setattr

from rechannel.control.board import Board
from rechannel.engine.journal.entries import Intent, Opened
from rechannel.engine.journal.kept import Savepoint, Version, frozen
from rechannel.errors import NotReadyError
from rechannel.model.bad_rows import Pasts
from rechannel.model.bytimestep import ByTimestep
from rechannel.model.codec import Json
from rechannel.model.configuration import Configuration
from rechannel.model.eventtime import Times
from rechannel.reconfigure.coordination import Coordination
from rechannel.state.manifest import Manifest


class JournalState(Struct, frozen=True, kw_only=True):
    """Everything needed to continue after entry `number`."""

    number: int = 0
    """Number of the latest entry; 0 if there is none."""
    epoch: int = 0
    """Epoch of the latest driver."""
    driver: Opened | None = None
    """The latest driver."""
    closed: bool = False
    """Whether that driver closed the journal itself."""
    last_committed: int | None = None
    """Latest committed timestep."""
    versions: Mapping[int, Version] = field(default_factory=dict)
    """By timestep."""
    offsets: Mapping[str, Json] = field(default_factory=dict)
    """Where each source continues."""
    open_intents: tuple[Intent, ...] = ()
    """Intended timesteps that are not committed, in order."""
    attempts: int = 0
    """How many drivers have run the oldest of these, the present one included."""
    configurations: tuple[tuple[int, Configuration], ...] = ()
    """(timestep, the configuration that holds from it on), ascending."""
    unpublished: Mapping[int, Mapping[str, Json]] = field(default_factory=dict)
    """Staged results by timestep and sink."""
    notes: Mapping[str, Json] = field(default_factory=dict)
    """Latest body by kind."""
    keep_versions: int = 1
    """How many versions stay."""
    coordination: Coordination = field(default_factory=Coordination)
    """The reconfigurations."""
    board: Board = field(default_factory=Board)
    """The controllers."""
    digests: Mapping[int, str] = field(default_factory=dict)
    """Digests of intents (`Intent.digest`) of timesteps that are open, unpublished or kept as versions."""
    bad_rows: Pasts = field(default_factory=dict)
    """What operators with a bound on bad rows counted in the latest committed timesteps."""
    openings: tuple[str, ...] = ()
    """Ids of the latest drivers; the last one is that of `epoch`."""
    savepoints: Mapping[str, Savepoint] = field(default_factory=dict)
    """By name."""
    opened_at: tuple[int, ...] = ()
    """Numbers of all openings, ascending: their entries stay (see `log`). Early journals do not have them all."""

    def __post_init__(self) -> None:
        """Freeze the mappings, drop versions beyond the bound and configurations before them."""
        if self.keep_versions < 1:
            msg = f"keep_versions must be at least 1, not {self.keep_versions}"
            raise ValueError(msg)
        force_setattr(self, "unpublished", ByTimestep.of(self.unpublished))
        for name in ("offsets", "notes", "savepoints"):
            force_setattr(self, name, frozen(getattr(self, name)))
        dropped = self._bound_versions()
        digests = self.digests
        if not isinstance(digests, ByTimestep):
            known = {
                *self.versions,
                *self.unpublished,
                *(one.timestep for one in self.open_intents),
            }
            digests = ByTimestep({t: text for t, text in digests.items() if t in known})
        force_setattr(self, "digests", self._without_digests(digests, dropped))

    def _bound_versions(self) -> set[int]:
        """Drop versions beyond the bound, and configurations before them; return the timesteps dropped."""
        if isinstance(self.versions, MappingProxyType) and len(self.versions) <= self.keep_versions:
            return set()  # as the state before has left them
        kept = sorted(self.versions)[-self.keep_versions :]
        dropped = self.versions.keys() - kept
        versions = {timestep: self.versions[timestep] for timestep in kept}
        force_setattr(self, "versions", frozen(versions))
        if kept:
            force_setattr(self, "configurations", _since(self.configurations, kept[0]))
        return dropped

    def _without_digests(
        self, digests: ByTimestep[str], timesteps: Iterable[int]
    ) -> ByTimestep[str]:
        """Return the digests after timesteps ended or their versions went; those of unpublished timesteps stay."""
        for timestep in timesteps:
            if timestep not in self.unpublished:
                digests = digests.without(timestep)
        return digests

    @property
    def next_number(self) -> int:
        """Number of the next entry."""
        return self.number + 1

    @property
    def manifests(self) -> Mapping[str, Manifest]:
        """Live state by operator, as of the latest commit."""
        return self.latest.manifests

    @property
    def times(self) -> Mapping[str, Times]:
        """Event time by operator, as of the latest commit."""
        return self.latest.times

    @property
    def stream_ms(self) -> int:
        """Time of the latest committed timestep, Unix milliseconds; 0 before the first."""
        return self.latest.stream_ms

    @property
    def last_intended(self) -> int | None:
        """Latest timestep that was intended or committed."""
        return self.open_intents[-1].timestep if self.open_intents else self.last_committed

    @property
    def latest(self) -> Version:
        """The latest committed version; an empty one before the first."""
        return Version() if self.last_committed is None else self.versions[self.last_committed]

    def digest(self, timestep: int) -> str:
        """Return the digest of the intent of a timestep that is open, unpublished or kept; "" if unknown."""
        return self.digests.get(timestep, "")

    @property
    def drivers(self) -> Mapping[int, str]:
        """Ids of the latest drivers, by epoch."""
        first = self.epoch - len(self.openings) + 1
        return {epoch: id for epoch, id in enumerate(self.openings, first) if id}  # noqa: A001

    def configuration_at(self, timestep: int) -> Configuration:
        """Return the configuration of a timestep. Raises NotReadyError if the journal has none for it."""
        for since, configuration in reversed(self.configurations):
            if since <= timestep:
                return configuration
        msg = f"the journal holds no configuration for timestep {timestep}"
        raise NotReadyError(msg)


def _since(
    configurations: tuple[tuple[int, Configuration], ...], timestep: int
) -> tuple[tuple[int, Configuration], ...]:
    """Drop what no longer holds at a timestep or later."""
    first = sum(1 for since, _ in configurations[1:] if since <= timestep)
    return configurations[first:]
