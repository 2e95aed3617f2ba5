"""Advice from files: the kind of file is recognised, and its reader asked."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol, TypeAlias

from rechannel.errors import RefusedError, SetUpError
from rechannel.scaling.files.advice import ScalingAdvice
from rechannel.scaling.files.aggregated import read_given
from rechannel.scaling.files.deployment import read_topology
from rechannel.scaling.files.ds2 import Question, evaluate
from rechannel.scaling.files.layout import find_files, looks_like_one
from rechannel.scaling.files.reports import read_reports
from rechannel.scaling.files.request import Request
from rechannel.scaling.files.spark.advice import LogAdvice
from rechannel.scaling.files.timely import read_timely_reports, read_timely_topology
from rechannel.scaling.needs.values import StreamAdvice

AnyAdvice: TypeAlias = ScalingAdvice | LogAdvice | StreamAdvice
INSTALL = "pip install 'rechannel[profile]'"


class AdviceReader(Protocol):
    """Knows one kind of file."""

    @property
    def what(self) -> str:
        """The kind of file, for people."""
        ...

    def reads(self, place: Path) -> bool:
        """Whether a file or directory is of this kind."""
        ...

    def advise(self, place: Path, asked: Request) -> AnyAdvice:
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


@dataclass(frozen=True, slots=True)
class SparkLog:
    """The event log of an application of Spark."""

    what: str = "an event log of Spark"

    def reads(self, place: Path) -> bool:
        """Whether its first line is an event. Raises SetUpError without the packages that read logs."""
        try:
            from rechannel.scaling.files.spark.reader import is_log
        except ImportError as error:
            msg = f"event logs need a package that is not installed ({error.name}): {INSTALL}"
            raise SetUpError(msg) from error
        return is_log(place)

    def advise(self, place: Path, asked: Request) -> LogAdvice:
        """Return what the application needs. Raises TraceError, RefusedError."""
        from rechannel.scaling.files.spark.reader import log_advice

        return log_advice(place, asked)


READERS: tuple[AdviceReader, ...] = (Ds2Files(), SparkLog())
"""Files of other systems; the first that recognises a path reads it."""


def read_advice(
    place: Path, asked: Request, readers: Sequence[AdviceReader] = READERS
) -> AnyAdvice:
    """Return what files say. readers: every kind of file; the first that recognises the path reads it.

    Raises RefusedError for what is not there, is of no known kind or cannot be asked, TraceError for bad lines.
    """
    if not place.exists():
        raise RefusedError(f"{place} does not exist: give the files of a run")
    reader = next((each for each in readers if each.reads(place)), None)
    if reader is None and asked.topology is not None and place.is_file():
        reader = Ds2Files()
    if reader is None:
        kinds = ", ".join(each.what for each in readers)
        raise RefusedError(
            f"{place} is not one of these: {kinds}. A file of rates needs a topology"
        )
    return reader.advise(place, asked)
