"""What serves a running job over HTTP, as the job knows it."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Protocol, Self

if TYPE_CHECKING:
    from rechannel.running.job import RunningJob


class Server(Protocol):
    """A server of a running job, as `RunningJob.serve` returns it. Used in a `with`, it is closed at the end."""

    token: str
    """What every request must bear."""

    token_file: Path | None
    """File with the token, if the server made one."""

    host: str
    port: int

    @property
    def url(self) -> str:
        """Its address, such as http://127.0.0.1:8520."""

    @property
    def is_open(self) -> bool:
        """Whether it still answers."""

    def linger(self) -> None:
        """Answer for some more seconds if the job has ended by itself: its clients may ask how."""

    def close(self) -> None:
        """Answer the requests that have arrived, and end. The job continues."""

    def __enter__(self) -> Self: ...

    def __exit__(self, *error: object) -> None: ...


class ServerFactory(Protocol):
    """Starts a server of a job."""

    def __call__(
        self,
        job: RunningJob,
        *,
        host: str,
        port: int,
        token: str | None,
        allow: Sequence[str],
        programs: Sequence[str],
    ) -> Server:
        """Start it. Raises SetUpError without the extra `serve`, RefusedError if the port is taken."""
