"""Advice of any kind, as text and as JSON."""

from __future__ import annotations

from typing import Any

from rechannel.cli.advice.ds2 import show_ds2
from rechannel.cli.advice.log import show_log
from rechannel.cli.advice.stream import show_stream
from rechannel.cli.screen import say
from rechannel.errors import RefusedError
from rechannel.scaling.files import advice as ds2
from rechannel.scaling.files.api import AnyAdvice
from rechannel.scaling.files.spark.advice import LogAdvice
from rechannel.scaling.files.spark.words import as_record
from rechannel.scaling.needs.values import StreamAdvice


def show_advice(made: AnyAdvice) -> None:
    """Print advice for people."""
    match made:
        case StreamAdvice():
            show_stream(made)
        case ds2.ScalingAdvice():
            show_ds2(made)
        case LogAdvice():
            show_log(made)


def record_of(made: AnyAdvice) -> dict[str, Any]:
    """Return advice as JSON values: docs/formats/advice.md."""
    match made:
        case StreamAdvice():
            return made.to_dict()
        case ds2.ScalingAdvice():
            return ds2.as_record(made)
        case LogAdvice():
            return as_record(made)


def write_page(made: AnyAdvice, page: str | None) -> None:
    """Write the page that is asked for. Raises RefusedError."""
    if page is None:
        return
    from rechannel.scaling.report.api import write_advice

    try:
        write_advice(made, page)
    except OSError as error:
        msg = f"{page} cannot be written ({error.strerror}): give a path in a directory that exists"
        raise RefusedError(msg) from error
    say(f"wrote {page}")
