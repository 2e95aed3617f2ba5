"""The copy of a session in which exchanges are planned."""

from types import SimpleNamespace

import pytest

from rechannel.engine.spark import private
from rechannel.engine.spark.private import STEADY, steady_copy


class Session:
    """A session with settings of its own."""

    def __init__(self, settings: dict[str, str]) -> None:
        self.settings = settings
        self.conf = SimpleNamespace(get=self._get)
        self.copies = list[dict[str, str]]()
        self._jsparkSession = SimpleNamespace(cloneSession=self._clone)

    def _get(self, key: str, default: str | None) -> str | None:
        return self.settings.get(key, default)

    def _clone(self) -> SimpleNamespace:
        copy = dict(self.settings)
        self.copies.append(copy)
        return SimpleNamespace(conf=lambda: SimpleNamespace(set=copy.__setitem__))


@pytest.fixture(autouse=True)
def _forgets():
    private._copied.cache_clear()
    yield
    private._copied.cache_clear()


def test_a_session_that_fits_is_not_copied_until_its_user_changes_a_setting():
    session = Session(dict(STEADY))
    assert steady_copy(session) is None
    (key, *_) = STEADY
    session.settings[key] = "true" if STEADY[key] == "false" else "false"
    assert steady_copy(session) is not None
    assert session.copies == [dict(STEADY)]


def test_a_session_is_copied_once():
    session = Session({})
    assert steady_copy(session) is steady_copy(session)
    assert len(session.copies) == 1
