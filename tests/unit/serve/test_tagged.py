"""Entity tags of answers."""

from __future__ import annotations

import asyncio

import pytest

from rechannel.serve.tagged import Tagged


def asked(pieces, *, method="GET", status=200, known=()):
    """What a client receives of an application that answers in pieces."""
    sent = []

    async def app(scope, receive, send):
        headers = [(b"content-type", b"text/plain"), (b"content-length", b"4"), (b"x-own", b"1")]
        await send({"type": "http.response.start", "status": status, "headers": headers})
        for number, piece in enumerate(pieces, 1):
            more = number < len(pieces)
            await send({"type": "http.response.body", "body": piece, "more_body": more})

    async def send(message):
        sent.append(message)

    headers = [(b"if-none-match", one) for one in known]
    scope = {"type": "http", "method": method, "headers": headers}
    asyncio.run(Tagged(app)(scope, None, send))
    start, *bodies = sent
    return start["status"], dict(start["headers"]), b"".join(each["body"] for each in bodies)


def test_equal_answers_have_equal_tags():
    tags = [asked([body])[1][b"etag"] for body in (b"same", b"same", b"else")]
    assert tags[0] == tags[1] != tags[2]


def test_a_client_that_has_the_answer_gets_no_body_but_the_other_headers():
    tag = asked([b"same"])[1][b"etag"]
    assert asked([b"same"], known=[b'"old"', tag]) == (304, {b"x-own": b"1", b"etag": tag}, b"")
    assert asked([b"else"], known=[tag])[::2] == (200, b"else")


@pytest.mark.parametrize(
    "case", [{"method": "POST"}, {"status": 404}, {"pieces": [b"sa", b"me"]}], ids=str
)
def test_other_answers_are_passed_on_as_they_are(case):
    status, headers, body = asked(**{"pieces": [b"same"], **case})
    assert (status, body) == (case.get("status", 200), b"same")
    assert b"etag" not in headers
