"""The web application of an ingest server: its routes, and how errors look."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa
import xxhash
from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import JSONResponse
from starlette.routing import Route

from rechannel.errors import NotReadyError, RechannelError, StorageError, one_sentence
from rechannel.ingest.arrow_rows import read_stream
from rechannel.ingest.columns import BadRowsError, Columns, TooManyRowsError
from rechannel.ingest.committing import Committer, Item, Outcome
from rechannel.ingest.json_rows import read_array, read_lines
from rechannel.ingest.producers import Numbered, Verdict
from rechannel.ingest.writing import Request as Posted
from rechannel.model.ddl import columns_text
from rechannel.serve.failures import MalformedError, status_of
from rechannel.serve.guard import FULL, SHARE, Share
from rechannel.version import __version__

KINDS = {
    "application/x-ndjson": read_lines,
    "application/jsonl": read_lines,
    "application/json": read_array,
    "application/vnd.apache.arrow.stream": read_stream,
}
"""What reads a body, by its content type."""

KINDS_MESSAGE = (
    "send Content-Type: application/x-ndjson (one JSON object per line), application/json (an array of objects) or"
    " application/vnd.apache.arrow.stream"
)
TOKEN_MESSAGE = (
    "this server needs its token, as `Authorization: Bearer TOKEN`: that of the file which `rechannel ingest` was given"
    " as --token-file, or which it named when it started"
)
UNLOCKED = frozenset({"/health"})

RETRY = {"Retry-After": "1"}
SMALL_BYTES = 1 << 15
"""A body up to this size is read at once, without another thread."""
MOST_PARSED = 4
"""Larger bodies that are read at a time."""

PATIENCE_S = 60.0
"""How long a request waits for its file."""

MOST_NAME = 200
"""Characters of a producer's name."""
MOST_SEQUENCE = 2**63 - 1


@dataclass(frozen=True, kw_only=True)
class Ingest:
    """What the routes need."""

    committer: Committer
    columns: Columns
    log: str
    """Id of the log."""
    parsing: asyncio.Semaphore = field(default_factory=lambda: asyncio.Semaphore(MOST_PARSED))
    """Bounds what parsing takes beside the bodies."""

    def application(self) -> Starlette:
        """Return the routes."""
        return Starlette(
            routes=[
                Route("/rows", self.rows, methods=["POST"]),
                Route("/producers/{producer:path}", self.producer, methods=["GET"]),
                Route("/status", self.status, methods=["GET"]),
                Route("/health", self.health, methods=["GET"]),
            ],
            exception_handlers={
                HTTPException: _unknown,
                RechannelError: _failed,
                Exception: _failed,
            },
        )

    async def rows(self, request: Request) -> JSONResponse:
        """Keep the rows of a body, and answer when they are durable."""
        if request.headers.get("content-encoding", "identity") != "identity":
            return _error(415, "malformed", "bodies are taken without a Content-Encoding")
        name, sequence = _named(request.query_params)
        body = await request.body()
        read = KINDS.get(_kind(request.headers.get("content-type", "")), read_lines)
        if len(body) <= SMALL_BYTES:
            rows = read(body, self.columns)
        else:
            async with self.parsing:
                rows = await run_in_threadpool(read, body, self.columns)
        share: Share = request.scope[SHARE]
        if not share.fits(rows.nbytes):
            raise TooManyRowsError(
                f"a body of {len(body):,} bytes whose rows take {rows.nbytes:,} is more than the server holds for all"
                " requests together: send fewer rows at a time"
            )
        if not share.take(rows.nbytes):
            return _error(429, "not_ready", FULL, RETRY)
        numbered = None
        if name is not None:
            digest = xxhash.xxh3_128_hexdigest(body)
            numbered = Numbered(producer=name, sequence=sequence, digest=digest)
        return await self._kept(rows, numbered, share)

    async def _kept(
        self, rows: pa.RecordBatch, numbered: Numbered | None, share: Share
    ) -> JSONResponse:
        repeated = False
        if numbered is not None or rows.num_rows:
            answer = await self._done(Item(request=Posted(rows=rows, numbered=numbered)), share)
            repeated = answer is Verdict.REPEATED
        said: dict[str, Any] = {"rows": rows.num_rows, "repeated": repeated}
        if numbered is not None:
            said |= {"producer": numbered.producer, "sequence": numbered.sequence}
        return JSONResponse(said)

    async def producer(self, request: Request) -> JSONResponse:
        """The number of the last request of a producer that was kept; 0 for none."""
        name = _checked_name(request.path_params["producer"])
        kept = await self._done(Item(producer=name))
        sequence = getattr(kept, "sequence", 0)
        return JSONResponse({"producer": name, "sequence": sequence})

    async def status(self, request: Request) -> JSONResponse:
        """How log and server are."""
        del request
        standing = self.committer.standing
        return JSONResponse(
            {
                "log": self.log,
                "columns": columns_text(self.columns.schema),
                "file": standing.number,
                "rows": standing.rows,
                "waiting": standing.waiting,
                "producers": standing.producers,
                "trouble": standing.trouble,
                "version": __version__,
            }
        )

    async def health(self, request: Request) -> JSONResponse:
        """Whether rows can be kept; needs no token, and tells nothing else."""
        del request
        well = self.committer.alive and self.committer.standing.trouble is None
        return JSONResponse(
            {"status": "ok" if well else "failing"}, status_code=200 if well else 503
        )

    async def _done(self, item: Item, share: Share | None = None) -> Outcome:
        """Return what became of an item. Raises what went wrong. share: what its rows hold of the room."""
        waiting = Waiting(asyncio.get_running_loop().create_future())
        item.tag = waiting
        self.committer.submit(item)
        if (
            share is not None
        ):  # the rows wait on for the store when the request no longer waits for them
            waiting.held = share.handed_over()
        try:
            outcome = await asyncio.wait_for(waiting.future, PATIENCE_S)
        except TimeoutError as error:
            waiting.answered = True
            raise StorageError(f"the store has not answered for {PATIENCE_S:g} s") from error
        if isinstance(outcome, RechannelError):
            raise outcome
        return outcome


@dataclass(slots=True, eq=False)
class Waiting:
    """A request that waits for what becomes of its item."""

    future: asyncio.Future[Outcome]
    held: Share | None = None
    answered: bool = False
    """Whether the request was answered before its item was done: it has waited for too long."""


@dataclass(slots=True, eq=False)
class Answers:
    """Gives outcomes to the requests that wait for them."""

    cut_off: int = 0
    """Requests whose items were done and that could not be answered any more, as the server had ended."""

    def tell(self, outcomes: list[tuple[Item, Outcome]]) -> None:
        """Give outcomes to their requests. Called in the committer's thread."""
        made = [(item.tag, got) for item, got in outcomes if isinstance(item.tag, Waiting)]
        if not made:
            return
        cut_off = (w.future.cancelled() and not w.answered for w, _ in made)
        self.cut_off += sum(cut_off)
        try:
            made[0][0].future.get_loop().call_soon_threadsafe(_set, made)
        except RuntimeError:  # the server has ended before the committer
            self.cut_off += sum(not waiting.future.done() for waiting, _ in made)


def _set(made: list[tuple[Waiting, Outcome]]) -> None:
    for waiting, outcome in made:
        if waiting.held is not None:
            waiting.held.give()
        if not waiting.future.done():
            waiting.future.set_result(outcome)


def _kind(header: str) -> str:
    return header.partition(";")[0].strip().lower()


def _named(query: Mapping[str, str]) -> tuple[str | None, int]:
    """Return producer and sequence of a request. Raises MalformedError."""
    unknown = sorted(query.keys() - {"producer", "sequence"})
    if unknown:
        raise MalformedError(
            f"query: there is no parameter {unknown[0]!r} here; there are producer and sequence"
        )
    name, number = query.get("producer"), query.get("sequence")
    if name is None and number is None:
        return None, 0
    if name is None or number is None:
        raise MalformedError("query: give producer and sequence together, or neither")
    decimal = number.isascii() and number.isdecimal() and len(number) <= len(str(MOST_SEQUENCE))
    if not decimal or not 1 <= int(number) <= MOST_SEQUENCE:
        raise MalformedError(
            f"query: sequence is a number from 1 to {MOST_SEQUENCE}, not {number[:40]!r}"
        )
    return _checked_name(name), int(number)


def _checked_name(name: str) -> str:
    if not name or len(name) > MOST_NAME or not name.isprintable():
        raise MalformedError(
            f"query: producer is a name of 1 to {MOST_NAME} printable characters, not {name[:40]!r}"
        )
    return name


def _error(
    status: int, kind: str, message: str, headers: Mapping[str, str] | None = None, **more: Any
) -> JSONResponse:
    body = {"error": kind, "message": message, **more}
    return JSONResponse(body, status_code=status, headers=dict(headers or {}))


async def _unknown(request: Request, error: Exception) -> JSONResponse:
    status = error.status_code if isinstance(error, HTTPException) else 500
    words = {404: "there is no such route", 405: f"{request.method} is not for this route"}
    kind = {404: "not_found", 405: "not_allowed"}.get(status, "malformed")
    headers = error.headers if isinstance(error, HTTPException) else None
    there = "there are POST /rows, GET /producers/{producer}, GET /status and GET /health"
    return _error(
        status, kind, f"{words.get(status, str(error))}: {request.url.path}; {there}", headers
    )


async def _failed(request: Request, error: Exception) -> JSONResponse:
    del request
    if isinstance(error, BadRowsError):
        return _error(422, "malformed", str(error), row=error.row, column=error.column)
    if isinstance(error, TooManyRowsError):
        return _error(413, "malformed", str(error))
    if isinstance(error, StorageError):
        why = one_sentence(error).partition(". ")[0].rstrip(".")
        message = f"the rows could not be kept durably: {why}. Send the request again"
        return _error(503, "not_ready", message, RETRY)
    status, kind = status_of(error)
    headers = RETRY if isinstance(error, NotReadyError) else None
    return _error(status, kind, str(error) or type(error).__name__, headers)
