"""Advice from files: the kind of file is recognised, and its reader asked."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from rechannel.errors import RefusedError
from rechannel.scaling.files.advice import ScalingAdvice
from rechannel.scaling.files.aggregated import read_given
from rechannel.scaling.files.deployment import read_topology
from rechannel.scaling.files.ds2 import Question, System, evaluate
from rechannel.scaling.files.layout import find_files, looks_like_one
from rechannel.scaling.files.reports import read_reports
from rechannel.scaling.files.request import Request
from rechannel.scaling.files.timely import read_timely_reports, read_timely_topology


class AdviceReader(Protocol):
    """Knows one kind of file."""

    @property
    def what(self) -> str:
        """The kind of file, for people."""
        ...

    def reads(self, place: Path) -> bool:
        """Whether a file or directory is of this kind."""
        ...

    def advise(self, place: Path, asked: Request) -> ScalingAdvice:
        """Return what the files say. Raises TraceError, RefusedError."""
        ...


@dataclass(frozen=True, slots=True)
class Ds2Files:
    """A topology and rates, in the files of DS2."""

    what: str = "files of DS2 (*topology*.csv and *rates*.csv)"

    def reads(self, place: Path) -> bool:
        """Whether there is a topology, or rates."""
        return looks_like_one(place)

    def advise(self, place: Path, asked: Request) -> ScalingAdvice:
        """Return what every operator needs. Raises TraceError for a bad line, RefusedError for a missing file."""
        files = find_files(
            place,
            topology=asked.topology,
            source_rates=asked.source_rates,
            operator_rates=asked.operator_rates,
        )
        logs = asked.system == "timely" and files.topology.suffix != ".csv"
        of = read_timely_topology(files.topology) if logs else read_topology(files.topology)
        reports = (
            read_timely_reports(files.rates, of)
            if logs
            else read_reports(files.rates, of, numbered=files.numbered)
        )
        graph = of.topology
        scaled = [key for key in graph.operators if graph.inputs[key]]
        sources, limits = files.source_rates, files.operator_rates
        question = Question(
            system=asked.system,
            factor=asked.factor,
            threshold=asked.threshold,
            source_rates={} if sources is None else read_given(sources, graph.sources),
            operator_rates={} if limits is None else read_given(limits, scaled),
        )
        return evaluate(of, reports, question, place.name)


READERS: tuple[AdviceReader, ...] = (Ds2Files(),)
"""Every kind of file; the first that recognises a path reads it."""


def scaling_advice(
    path: str | Path,
    *,
    system: System = "flink",
    factor: float = 0.0,
    threshold: float | None = None,
    topology: str | Path | None = None,
    source_rates: str | Path | None = None,
    operator_rates: str | Path | None = None,
) -> ScalingAdvice:
    """Return how many instances each operator of a recorded dataflow needs, by DS2's model.

    path: a directory with DS2's files (`*topology*`, `*rates*`), or the file of rates. system: the engine that wrote
    them; for "timely" the advice is a number of workers. factor: share of instances in addition. threshold: if no
    operator lacks instances, and sources emit so many times less than they should, the numbers grow by that ratio.
    topology, source_rates, operator_rates: files that are not in the directory, or have other names.

    Raises RefusedError for what cannot be asked, TraceError for files with bad lines.
    """
    asked = Request(
        system=system,
        factor=factor,
        threshold=threshold,
        topology=_path(topology),
        source_rates=_path(source_rates),
        operator_rates=_path(operator_rates),
    )
    Question(system=system, factor=factor, threshold=threshold)
    place = Path(path)
    if not place.exists():
        raise RefusedError(f"{place} does not exist: give the files of a run")
    reader = next((each for each in READERS if each.reads(place)), None)
    if reader is None and asked.topology is not None and place.is_file():
        reader = Ds2Files()
    if reader is None:
        kinds = ", ".join(each.what for each in READERS)
        raise RefusedError(
            f"{place} is not one of these: {kinds}. A file of rates needs a topology"
        )
    return reader.advise(place, asked)


def _path(given: str | Path | None) -> Path | None:
    return None if given is None else Path(given)
