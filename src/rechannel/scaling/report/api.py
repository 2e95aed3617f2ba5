"""The page of any kind of advice."""

from __future__ import annotations

from pathlib import Path

from rechannel.scaling.files.advice import ScalingAdvice
from rechannel.scaling.files.api import AnyAdvice
from rechannel.scaling.files.spark.advice import LogAdvice
from rechannel.scaling.needs.values import StreamAdvice
from rechannel.scaling.report.ds2 import ds2_page
from rechannel.scaling.report.logs import logs_page
from rechannel.scaling.report.page import write_page
from rechannel.scaling.report.parts import Page
from rechannel.scaling.report.stream import stream_page


def page_of(made: AnyAdvice) -> Page:
    """Return what the page of advice shows."""
    match made:
        case StreamAdvice():
            return stream_page(made)
        case ScalingAdvice():
            return ds2_page(made)
        case LogAdvice():
            return logs_page(made)


def write_advice(made: AnyAdvice, path: str | Path) -> None:
    """Write advice as an HTML page that fetches nothing."""
    write_page(page_of(made), path)
