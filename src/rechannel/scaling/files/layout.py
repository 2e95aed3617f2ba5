"""Which file of a directory is which, by its name.

    *topology*                the topology
    NAME-INSTANCE-EPOCH.ext   the rates of one instance and epoch, here or in a directory *rates*
    *source*rates*            rates of sources
    *operator*rates*          rates of operators
    *rates*                   the rates of all instances and epochs

The first line that matches decides; hidden files are skipped, and so is what matches none.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from rechannel.errors import RefusedError
from rechannel.scaling.files.reports import NUMBERED


@dataclass(frozen=True, slots=True, kw_only=True)
class Layout:
    """The files of one run."""

    topology: Path
    rates: tuple[Path, ...]
    numbered: bool
    """Whether `rates` has a file per instance and epoch."""
    source_rates: Path | None = None
    operator_rates: Path | None = None


def find_files(
    place: Path,
    *,
    topology: Path | None = None,
    source_rates: Path | None = None,
    operator_rates: Path | None = None,
) -> Layout:
    """Return the files of a run.

    place: a directory, or the file of rates. topology, source_rates, operator_rates: files, in place of those that the
    directory has. Raises RefusedError if a file is missing, or two files could be the same one.
    """
    for given in (place, topology, source_rates, operator_rates):
        if given is not None and not given.exists():
            raise RefusedError(f"{given} does not exist: give the files of a run")
    found = _sorted_out(place.iterdir()) if place.is_dir() else {"rates": [place]}
    rates, numbered = _rates(place, found)
    graph = topology or _only(found, "topology")
    if graph is None:
        msg = (
            f"{place} has no file of the topology (*topology*): add it, or name it as the topology"
        )
        raise RefusedError(msg)
    return Layout(
        topology=graph,
        rates=rates,
        numbered=numbered,
        source_rates=source_rates or _only(found, "source rates"),
        operator_rates=operator_rates or _only(found, "operator rates"),
    )


def looks_like_one(place: Path) -> bool:
    """Whether a file or directory holds what `find_files` looks for: a file of the topology, or of rates."""
    if not place.is_dir():
        return place.is_file() and _kind(place) in {"rates", "epoch"}
    found = _sorted_out(place.iterdir())
    return any(found.get(kind) for kind in ("topology", "rates", "epoch"))


def _rates(place: Path, found: Mapping[str, Sequence[Path]]) -> tuple[tuple[Path, ...], bool]:
    """Return the files of rates, and whether each holds one epoch."""
    one, epochs = _only(found, "rates"), found.get("epoch", ())
    if one is not None and one.is_dir():
        inside = _sorted_out(one.iterdir())
        epochs = [*epochs, *inside.get("epoch", ())]
        one = _only(inside, "rates") if not epochs else None
    if one is not None and epochs:
        msg = f"{place} has rates in {one.name} and in a file per epoch, {epochs[0].name}: name one of them"
        raise RefusedError(msg)
    if one is None and not epochs:
        msg = f"{place} has no rates: neither *rates* nor NAME-INSTANCE-EPOCH.ext"
        raise RefusedError(msg)
    return ((one,), False) if one is not None else (tuple(epochs), True)


def _sorted_out(files: Iterable[Path]) -> dict[str, list[Path]]:
    found = defaultdict[str, list[Path]](list)
    for file in sorted(files):
        kind = _kind(file)
        if kind is not None:
            found[kind].append(file)
    return found


def _kind(file: Path) -> str | None:
    name = file.name.lower()
    if name.startswith("."):
        return None
    if "topology" in name:
        return None if file.is_dir() else "topology"
    if NUMBERED.fullmatch(name) and not file.is_dir():
        return "epoch"
    if "rates" not in name:
        return None
    for what in ("source", "operator"):
        if what in name and not file.is_dir():
            return f"{what} rates"
    return "rates"


def _only(found: Mapping[str, Sequence[Path]], kind: str) -> Path | None:
    files = found.get(kind, ())
    if len(files) > 1:
        names = ", ".join(each.name for each in files)
        msg = f"{names} could all be the file of the {kind}: leave one in the directory, or name the file"
        raise RefusedError(msg)
    return files[0] if files else None
