"""Stands between a client and an HTTP server, and makes trouble: delays, refusals, lost answers, cut bodies."""

from __future__ import annotations

import asyncio
import random
import threading
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field

SLOW_DOWN = (
    b"<?xml version='1.0'?><Error><Code>SlowDown</Code><Message>Slow down.</Message></Error>"
)
DOES_NOT_HOLD = {b"412", b"409"}
"""Status of an answer to a conditional request; 409 from Azure."""
WRITTEN = b'HTTP/1.1 200 OK\r\nETag: "0"\r\nContent-Length: 0\r\n\r\n'


@dataclass
class Faults:
    """What happens to requests. Shares are between 0 and 1, and are drawn for each request."""

    latency_s: float = 0.0
    """Before a request is forwarded."""
    refused: float = 0.0
    """Answered with 503 SlowDown, and not forwarded."""
    dropped: float = 0.0
    """Connections closed before the request is forwarded."""
    unanswered: float = 0.0
    """Forwarded, and the connection closed before the answer arrives."""
    cut: float = 0.0
    """Reads of which half of the body arrives."""
    blind: bool = False
    """Whether a condition that does not hold is answered as if it held, as by a server that knows none."""


@dataclass
class Proxy:
    """A proxy that runs in a thread. `did` counts what happened, by fault, and requests by their method."""

    port: int
    """Of the server."""
    faults: Faults = field(default_factory=Faults)
    did: Counter[str] = field(default_factory=Counter)
    choose: random.Random = field(default_factory=lambda: random.Random(1))
    host: str = "127.0.0.1"
    """The address where the proxy listens."""

    def start(self) -> int:
        """Start it. Returns its port."""
        started = threading.Event()
        self._thread = threading.Thread(
            target=lambda: asyncio.run(self._serve(started)), daemon=True
        )
        self._thread.start()
        if not started.wait(10):
            raise RuntimeError("the proxy did not start")
        return int(self._server.sockets[0].getsockname()[1])

    def rewritten(self, head: bytes, body: bytes) -> tuple[bytes, bytes]:
        """Return a request as it is forwarded."""
        return head, body

    def answered(self, method: str, begins: bytes, answer: bytes) -> tuple[bytes, bytes]:
        """Return head and body of an answer as they are passed on. method: of the request as it came."""
        return begins, answer

    def stop(self) -> None:
        """Stop it, and close all connections."""
        self._loop.call_soon_threadsafe(self._stopped.set)
        self._thread.join(10)

    async def _serve(self, started: threading.Event) -> None:
        self._loop = asyncio.get_running_loop()
        self._stopped, self._open = asyncio.Event(), set[asyncio.StreamWriter]()
        self._server = await asyncio.start_server(self._connected, self.host, 0, limit=1 << 20)
        started.set()
        await self._stopped.wait()
        # A connection that was accepted just now is not closed by anybody if the server is closed, or its task is
        # cancelled, before that task begins.
        for listening in self._server.sockets:
            self._loop.remove_reader(listening.fileno())
        await asyncio.sleep(0.05)
        self._server.close()
        while self._open:
            for each in self._open:
                each.close()
            await asyncio.sleep(0.01)

    async def _connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        async with self._kept(writer):
            answers, server = await asyncio.open_connection("127.0.0.1", self.port, limit=1 << 20)
            async with self._kept(server):
                while await self._one(reader, writer, answers, server):
                    pass

    @asynccontextmanager
    async def _kept(self, writer: asyncio.StreamWriter) -> AsyncIterator[None]:
        """Keep a connection among the open ones, and close it at the end. The other side may close it too."""
        self._open.add(writer)
        try:
            with suppress(OSError, asyncio.IncompleteReadError):
                yield
        finally:
            writer.close()
            with suppress(OSError):
                await writer.wait_closed()
            self._open.discard(writer)

    async def _one(
        self,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
        answers: asyncio.StreamReader,
        server: asyncio.StreamWriter,
    ) -> bool:
        """Forward one request. Returns whether the connection stays."""
        head = await reader.readuntil(b"\r\n\r\n")
        body = await _body(reader, head)
        method = head.split(b" ", 1)[0].decode()
        self.did[method] += 1
        faults = self.faults
        if faults.latency_s:
            await asyncio.sleep(faults.latency_s)
        if self._happens("dropped", faults.dropped):
            return False
        if self._happens("refused", faults.refused):
            length = len(SLOW_DOWN)
            begin = f"HTTP/1.1 503 Slow Down\r\nContent-Type: application/xml\r\nContent-Length: {length}\r\n\r\n"
            writer.write(begin.encode() + (b"" if method == "HEAD" else SLOW_DOWN))
            await writer.drain()
            return True
        server.writelines(self.rewritten(head, body))
        await server.drain()
        begins = await answers.readuntil(b"\r\n\r\n")
        none = method == "HEAD" or begins.split(b" ", 2)[1] in {b"204", b"304"}
        answer = b"" if none else await _body(answers, begins)
        begins, answer = self.answered(method, begins, answer)
        if faults.blind and begins.split(b" ", 2)[1] in DOES_NOT_HOLD:
            self.did["blind"] += 1
            begins, answer = WRITTEN, b""
        if self._happens("unanswered", faults.unanswered):
            return False
        if method == "GET" and len(answer) > 1 and self._happens("cut", faults.cut):
            writer.write(begins + answer[: len(answer) // 2])
            await writer.drain()
            return False
        writer.write(begins + answer)
        await writer.drain()
        return b"connection: close" not in begins.lower()

    def _happens(self, fault: str, share: float) -> bool:
        if self.choose.random() >= share:
            return False
        self.did[fault] += 1
        return True


async def _body(reader: asyncio.StreamReader, head: bytes) -> bytes:
    """Return the body that follows, as it is sent."""
    fields = {}
    for line in head.split(b"\r\n")[1:]:
        name, _, value = line.partition(b":")
        fields[name.strip().lower()] = value.strip().lower()
    if b"chunked" in fields.get(b"transfer-encoding", b""):
        whole = b""
        while True:
            size = await reader.readuntil(b"\r\n")
            piece = await reader.readexactly(int(size.split(b";")[0], 16) + 2)
            whole += size + piece
            if int(size.split(b";")[0], 16) == 0:
                return whole
    return await reader.readexactly(int(fields.get(b"content-length", b"0")))
