"""Failures that are retried and end no job: of the lease, housekeeping, the journal's store."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from threading import Lock
from typing import Protocol

from rechannel.errors import one_sentence
from rechannel.logs import fields

_LOG = logging.getLogger("rechannel")


class Trouble(Protocol):
    """Receives the outcome of every attempt at something that is repeated."""

    def __call__(self, topic: str, error: BaseException | None) -> None:
        """Take an outcome. error: None after success. It must not raise and must not block."""


def unheard(topic: str, error: BaseException | None) -> None:
    """Ignore troubles."""


class Troubles:
    """By topic, the error of the latest attempt and the number of failures. Any thread may call it."""

    def __init__(
        self, changed: Callable[[str, str | None], None] = lambda topic, text: None
    ) -> None:
        """changed: called when a topic begins to fail (with a sentence), and when it works again (with None)."""
        self._changed = changed
        self._lock = Lock()
        self._current: dict[str, str] = {}
        self._counts: dict[str, int] = {}

    @property
    def current(self) -> Mapping[str, str]:
        """What fails now: a sentence by topic."""
        return dict(self._current)

    @property
    def counts(self) -> Mapping[str, int]:
        """Number of failures since the driver started, by topic."""
        return dict(self._counts)

    def __call__(self, topic: str, error: BaseException | None) -> None:
        """Take the outcome of an attempt."""
        text = None if error is None else one_sentence(error)
        with self._lock:
            before = self._current.pop(topic, None)
            if text is not None:
                self._current[topic] = text
                self._counts[topic] = self._counts.get(topic, 0) + 1
        if text is not None and before is None:
            _LOG.warning(
                "%s failed and is tried again: %s",
                topic,
                text,
                extra=fields("trouble", topic=topic, reason=text),
            )
            self._changed(topic, text)
        elif text is None and before is not None:
            _LOG.warning("%s works again", topic, extra=fields("trouble_over", topic=topic))
            self._changed(topic, None)
