"""Connections that ask nothing, or slowly: they end, and nobody else waits for them."""

from __future__ import annotations

import contextlib
import socket
import time
from functools import partial
from types import SimpleNamespace

import h11
import pytest

from rechannel.serve import connections
from tests.support.asking import get

PATIENCE = 60.0
HALF = b"POST /plan HTTP/1.1", b"Content-Type: application/json\r\nContent-Length: 9\r\n"
WHOLE = b"GET /status HTTP/1.1", b""


@pytest.fixture
def spell(server):
    """A request in bytes: its first line, and what headers it has beside those that all need."""

    def call(line: bytes, more: bytes) -> bytes:
        token = server.token.encode()
        return (
            line
            + b"\r\nHost: localhost\r\nAuthorization: Bearer "
            + token
            + b"\r\n"
            + more
            + b"\r\n"
        )

    return call


@pytest.fixture
def connect(server):
    """A socket that is connected to the server."""
    made = []

    def call() -> socket.socket:
        made.append(socket.create_connection((server.host, server.port), timeout=PATIENCE))
        return made[-1]

    yield call
    for one in made:
        one.close()


def hears(one: socket.socket) -> bytes:
    """What comes next; nothing at the end, however it ends."""
    try:
        return one.recv(65536)
    except ConnectionError:
        return b""


def answers(one: socket.socket) -> int:
    """The status of the next answer, which is read to its end, in however many pieces it comes."""
    client = h11.Connection(h11.CLIENT)
    client.send(h11.Request(method="GET", target="/", headers=[("Host", "localhost")]))
    client.send(h11.EndOfMessage())
    code = 0
    while True:
        event = client.next_event()
        if event is h11.NEED_DATA:
            client.receive_data(hears(one))
        elif isinstance(event, h11.Response):
            code = event.status_code
        elif isinstance(event, h11.EndOfMessage):
            return code


def status(server) -> int:
    return get(server, "/status").status_code


@pytest.mark.parametrize("sent", [b"", b"GET /sta", b"GET /status HTTP/1.1\r\nHost: loc"])
def test_who_does_not_finish_the_head_of_a_request_is_cut_off(connect, server, monkeypatch, sent):
    monkeypatch.setattr(connections, "HEAD_SECONDS", 0.1)
    one = connect()
    one.sendall(sent)
    assert hears(one) == b""
    assert status(server) == 200


@pytest.mark.parametrize("more", [b"", b"x"])
def test_who_leaves_out_the_body_of_a_probe_is_cut_off(connect, server, monkeypatch, more):
    """Probes need no token, and are answered before a body has come, of which they have none."""
    monkeypatch.setattr(connections, "MOST_CONNECTIONS", 3)
    made = [connect() for _ in range(3)]
    for one in made:
        one.sendall(b"GET /livez HTTP/1.1\r\nHost: localhost\r\nContent-Length: 10\r\n\r\n")
        assert answers(one) == 200
    for one in made:
        with contextlib.suppress(ConnectionError):
            one.sendall(more)
        assert hears(one) == b""
    assert status(server) == 200


def test_who_drips_is_cut_off_too(connect, monkeypatch):
    monkeypatch.setattr(connections, "HEAD_SECONDS", 0.3)
    one = connect()
    one.sendall(b"GET /status HTTP/1.1\r\nX: ")
    one.settimeout(0.02)
    end = time.monotonic() + PATIENCE
    while time.monotonic() < end:
        try:
            one.sendall(b"x")
            if one.recv(1) == b"":
                return
        except TimeoutError:
            continue
        except ConnectionError:
            return
    pytest.fail("it drips for ever")


def test_the_next_request_of_a_connection_has_no_more_time(connect, spell, monkeypatch):
    one = connect()
    whole = spell(*WHOLE)
    for _ in range(2):
        one.sendall(whole)
        assert answers(one) == 200
    monkeypatch.setattr(connections, "HEAD_SECONDS", 0.1)
    one.sendall(whole + b"GET /sta")
    while hears(one):
        pass


def test_a_request_that_takes_long_to_answer_has_its_time(connect, spell, monkeypatch):
    monkeypatch.setattr(connections, "HEAD_SECONDS", 0.1)
    one = connect()
    one.sendall(spell(*HALF))
    one.settimeout(0.5)
    with pytest.raises(TimeoutError):
        one.recv(1)
    one.settimeout(PATIENCE)
    one.sendall(b"nonsense!")
    assert answers(one) == 422


def test_the_one_that_is_silent_for_longest_makes_room(connect, server, monkeypatch):
    monkeypatch.setattr(connections, "MOST_CONNECTIONS", 3)
    first, *_others = [connect() for _ in range(3)]
    assert status(server) == 200
    assert hears(first) == b""


def test_who_comes_when_all_others_are_being_answered_is_turned_away(connect, spell, monkeypatch):
    busy = [connect() for _ in range(3)]
    for one in busy:
        one.sendall(spell(*HALF))
    late = connect()
    late.sendall(spell(*WHOLE))
    assert answers(late) == 200  # so those before it have begun
    monkeypatch.setattr(connections, "MOST_CONNECTIONS", 3)
    late.close()
    while hears(connect()):
        pass
    for one in busy:
        one.sendall(b"nonsense!")
        assert answers(one) == 422


class Line:
    """A transport whose client takes what it takes."""

    def __init__(self, left: int = 0) -> None:
        self.left, self.aborted = left, 0

    def get_write_buffer_size(self) -> int:
        return self.left

    def is_closing(self) -> bool:
        return False

    def abort(self) -> None:
        self.aborted += 1


class Loop:
    """Remembers what was to be called later."""

    def __init__(self) -> None:
        self.later = []

    def call_later(self, seconds, call, *given):
        self.later.append(partial(call, *given))
        return SimpleNamespace(cancel=self.later.clear)

    def time(self) -> float:
        return 0.0


def connection(line: Line, since: float = 0.0) -> connections.Impatient:
    """One that has a client, and nothing else."""
    made = object.__new__(connections.Impatient)
    made.transport, made.loop = line, Loop()
    made.conn = SimpleNamespace(their_state=h11.IDLE)
    made._deadline, made._silent_since, made._untaken, made._ended = None, since, 0, False
    made._stalled = made._full_since = None
    made.flow = SimpleNamespace(pause_writing=lambda: None, resume_writing=lambda: None)
    return made


def test_who_still_takes_an_answer_is_not_cut_off_and_who_stops_is():
    line = Line(1_000)
    one = connection(line)
    one._watch()
    for left in (1_000, 400, 30):
        line.left = left
        one.loop.later.pop()()
        assert (line.aborted, one.silent_since) == (0, None)
    one.loop.later.pop()()
    assert line.aborted == 1


def test_who_asks_on_without_taking_what_it_is_sent_is_cut_off_and_makes_room():
    """Requests that wait in line are no reason to be spared."""
    line = Line(70_000)
    one = connection(line)
    one.conn.their_state = h11.DONE
    assert one.silent_since is None
    one.pause_writing()
    assert one.silent_since == 0.0
    line.left = 60_000
    one.loop.later.pop()()
    assert line.aborted == 0
    one.loop.later.pop()()
    assert line.aborted == 1


def test_who_takes_a_large_answer_is_left_alone():
    one = connection(Line(70_000))
    one.conn.their_state = h11.DONE
    one.pause_writing()
    one.resume_writing()
    assert (one.loop.later, one.silent_since) == ([], None)


def test_in_a_burst_everyone_that_is_too_many_ends_another_one(monkeypatch):
    monkeypatch.setattr(connections, "MOST_CONNECTIONS", 3)
    there = [connection(Line(), since) for since in range(3)]
    for number in range(3):
        there.append(connection(Line(), 10.0 + number))
        counted = [one for one in there if not one._ended]
        there[-1]._make_room(counted)
    assert [one.transport.aborted for one in there] == [1, 1, 1, 0, 0, 0]
