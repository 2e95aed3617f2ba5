"""`rechannel scale`: how much a recorded stream or application needs."""

from __future__ import annotations

from typing import Annotated, Literal

import typer

from rechannel.cli.screen import show_json


def scale(  # noqa: PLR0913, PLR0917 - a command line
    path: Annotated[
        str,
        typer.Argument(
            metavar="PATH",
            help="The state directory of a job; the event log of an application of Spark; a directory with DS2's files"
            " (*topology*, *rates*), or the file of rates.",
        ),
    ],
    interval: Annotated[
        str | None,
        typer.Option(
            metavar="TIME",
            help="The interval to keep, such as '2 s' or '500 ms'. [default: that of the stream]",
        ),
    ] = None,
    rate: Annotated[
        float | None,
        typer.Option(help="Rows per second that arrive. [default: what was measured]"),
    ] = None,
    utilisation: Annotated[
        float, typer.Option(min=0, max=1, help="Share of the interval that may be used.")
    ] = 0.8,
    executor_cores: Annotated[
        int | None,
        typer.Option(metavar="N", help="Cores of each executor. [default: what they had]"),
    ] = None,
    query: Annotated[
        str | None,
        typer.Option(metavar="NAME", help="Of an event log: the only stream to advise."),
    ] = None,
    policy: Annotated[
        str, typer.Option(help="Of a job: the policy that is asked, such as ds2.")
    ] = "ds2-timesteps",
    window: Annotated[
        str, typer.Option(metavar="TIME", help="Of a job: the time that a window covers.")
    ] = "10 s",
    system: Annotated[
        Literal["flink", "timely", "heron"],
        typer.Option(help="The engine that wrote DS2's files; of timely the answer is one number."),
    ] = "flink",
    factor: Annotated[
        float, typer.Option(min=0, help="Of DS2: instances in addition: 0.2 adds 20 %.")
    ] = 0.0,
    threshold: Annotated[
        float | None,
        typer.Option(
            min=1,
            help="Of DS2: if no operator lacks instances, and sources emit so many times less than they should, the"
            " numbers grow by that ratio.",
        ),
    ] = None,
    topology: Annotated[
        str | None,
        typer.Option(metavar="FILE", help="Of DS2: the topology, if PATH does not have it."),
    ] = None,
    source_rates: Annotated[
        str | None,
        typer.Option(
            metavar="FILE",
            help="Of DS2: lines of a source and the records per second that each of its instances should emit.",
        ),
    ] = None,
    operator_rates: Annotated[
        str | None,
        typer.Option(
            metavar="FILE",
            help="Of DS2: lines of an operator and the records per second that an instance can process at most.",
        ),
    ] = None,
    page: Annotated[
        str | None,
        typer.Option("--html", metavar="FILE", help="Also write an HTML page with pictures."),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Say how much a recorded stream or application needs, and from which measurements that follows."""
    from rechannel.advising.api import scaling_advice
    from rechannel.cli.advice.shown import record_of, show_advice, write_page
    from rechannel.cli.profiles.values import duration

    made = scaling_advice(
        path,
        interval=None if interval is None else duration(interval, "--interval").total_seconds(),
        rate=rate,
        utilisation=utilisation,
        executor_cores=executor_cores,
        query=query,
        policy=policy,
        window=duration(window, "--window").total_seconds(),
        system=system,
        factor=factor,
        threshold=threshold,
        topology=topology,
        source_rates=source_rates,
        operator_rates=operator_rates,
    )
    write_page(made, page)
    if as_json:
        show_json(record_of(made))
    else:
        show_advice(made)
