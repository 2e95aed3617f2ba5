"""What goes wrong beside the stream, and is tried again: signs of the lease, housekeeping. Nothing of it ends a job."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from threading import Lock
from typing import Protocol

from rechannel.errors import one_sentence

_LOG = logging.getLogger(__name__)


class Trouble(Protocol):
    """Told how something went that is tried again and again."""

    def __call__(self, topic: str, error: BaseException | None) -> None:
        """error: what went wrong this time; None = it went well. It must not raise and must not block."""


def unheard(topic: str, error: BaseException | None) -> None:
    """Ignore troubles."""


class Troubles:
    """By topic, what went wrong when it was tried last, and how often it ever has. Any thread may tell or ask."""

    def __init__(
        self, changed: Callable[[str, str | None], None] = lambda topic, text: None
    ) -> None:
        """changed: told of a topic when it begins to go wrong (with a sentence), and when it is well again (None)."""
        self._changed = changed
        self._lock = Lock()
        self._current: dict[str, str] = {}
        self._counts: dict[str, int] = {}

    @property
    def current(self) -> Mapping[str, str]:
        """What is wrong now, a sentence by topic."""
        return dict(self._current)

    @property
    def counts(self) -> Mapping[str, int]:
        """How often what has failed since the driver started, by topic."""
        return dict(self._counts)

    def __call__(self, topic: str, error: BaseException | None) -> None:
        """Hear how it went."""
        text = None if error is None else one_sentence(error)
        with self._lock:
            before = self._current.pop(topic, None)
            if text is not None:
                self._current[topic] = text
                self._counts[topic] = self._counts.get(topic, 0) + 1
        if text is not None and before is None:
            _LOG.warning("%s failed and is tried again: %s", topic, text)
            self._changed(topic, text)
        elif text is None and before is not None:
            _LOG.warning("%s works again", topic)
            self._changed(topic, None)
