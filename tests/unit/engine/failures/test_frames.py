"""Errors that were dealt with hold nothing."""

from __future__ import annotations

import gc
import weakref
from concurrent.futures import Future

import pytest

from rechannel.engine.failures.frames import let_go
from rechannel.errors import StorageError


class Client:
    """Something with connections."""


def fails(client: Client) -> None:
    """Fail as a call does that another thread makes: the future holds the error, a frame the future."""
    made: Future[None] = Future()
    made.set_exception(OSError("no answer"))
    try:
        made.result()
    except OSError as error:
        raise StorageError("not written") from error


@pytest.mark.parametrize("let", [True, False])
def test_what_failed_is_freed_without_a_collection_of_garbage(let):
    gc.disable()
    try:
        client = Client()
        gone = weakref.ref(client)
        try:
            fails(client)
        except StorageError as error:
            if let:
                let_go(error)
        del client
        assert (gone() is None) is let
    finally:
        gc.enable()


def test_an_error_stays_what_it_is():
    with pytest.raises(StorageError, match="not written") as caught:
        fails(Client())
    let_go(caught.value)
    assert str(caught.value.__cause__) == "no answer"
    assert caught.value.__traceback__ is not None


def test_causes_in_a_circle_have_an_end():
    one, other = ValueError(), ValueError()
    one.__cause__, other.__cause__ = other, one
    let_go(one)
