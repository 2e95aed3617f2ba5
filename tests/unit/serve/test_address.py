from __future__ import annotations

import socket

import pytest

from rechannel.errors import RefusedError
from rechannel.serve.address import (
    bears,
    check_token,
    host_of,
    is_loopback,
    is_same_origin,
    listen,
    names_itself,
    split_address,
)


@pytest.mark.parametrize(
    ("text", "address"),
    [
        ("127.0.0.1:8520", ("127.0.0.1", 8520)),
        ("[::1]:0", ("::1", 0)),
        (":80", ("127.0.0.1", 80)),
        ("8520", ("127.0.0.1", 8520)),
        ("host.example:1", ("host.example", 1)),
    ],
)
def test_an_address_is_a_host_and_a_port(text, address):
    assert split_address(text) == address


@pytest.mark.parametrize("text", ["", "host", "host:", "host:x", "host:-1", "host:65536", "h:1.5"])
def test_what_is_no_address(text):
    with pytest.raises(RefusedError, match="is not an address"):
        split_address(text)


@pytest.mark.parametrize(
    "host", ["127.0.0.1", "127.9.9.9", "::1", "[::1]", "localhost", "LocalHost."]
)
def test_loopback(host):
    assert is_loopback(host)


@pytest.mark.parametrize(
    "host",
    ["0.0.0.0", "::", "10.0.0.1", "localhost.example", "127.0.0.1.example", "", "2130706433"],
)
def test_what_is_not_loopback(host):
    assert not is_loopback(host)


@pytest.mark.parametrize("header", ["127.0.0.1:8520", "localhost", "[::1]:8520", "LOCALHOST:1"])
def test_hosts_that_name_the_server(header):
    assert names_itself(header, "127.0.0.1")


@pytest.mark.parametrize(
    "header",
    [
        "evil.example",
        "evil.example:8520",
        "127.0.0.1.evil.example",
        "",
        ":8520",
        "[",
        "a@127.0.0.2.x",
    ],
)
def test_hosts_that_name_another(header):
    assert not names_itself(header, "127.0.0.1")


def test_the_host_that_it_was_bound_to_names_it():
    assert names_itself("My-Laptop:8520", "my-laptop")
    assert host_of("user@host.example:1") == "host.example"


@pytest.mark.parametrize(
    ("origin", "same"),
    [
        ("http://127.0.0.1:8520", True),
        ("https://127.0.0.1:8520", True),
        ("http://127.0.0.1:9999", False),
        ("http://evil.example", False),
        ("null", False),
        ("file://127.0.0.1:8520", False),
        ("http://[", False),
    ],
)
def test_origins(origin, same):
    assert is_same_origin(origin, "127.0.0.1:8520") is same


@pytest.mark.parametrize(
    ("said", "right"),
    [
        (["Bearer s3cret"], True),
        (["bearer  s3cret"], True),
        (["Basic s3cret"], False),
        (["Bearer s3cre"], False),
        (["Bearer "], False),
        (["s3cret"], False),
        (["Bearer s3cr\xe9t"], False),
        ([], False),
        (["Bearer s3cret", "Bearer s3cret"], False),
    ],
)
def test_tokens(said, right):
    assert bears(said, "s3cret") is right


@pytest.mark.parametrize("token", ["", " ", "two words\n", "s3cr\xe9t", " padded"])
def test_what_is_no_token(token):
    with pytest.raises(RefusedError, match="a token is one word"):
        check_token(token)


def test_a_port_in_use_and_a_host_that_is_elsewhere():
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(RefusedError, match=rf"cannot listen on port {port}"):
            listen("127.0.0.1", port)
    for host in ("no-such-host.invalid", ""):
        with pytest.raises(RefusedError, match="does not belong to this machine"):
            listen(host, 0)
