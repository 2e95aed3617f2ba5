"""What tests will ask for is fetched and built while the first of them run, which leave much of the machine idle."""

from __future__ import annotations

import threading
from collections.abc import Callable, Collection

from tests.real.components import kafka, postgres, s3

MAKERS: tuple[tuple[frozenset[str], Callable[[], object]], ...] = (
    (frozenset({"kafka", "own_kafka", "three_kafkas"}), kafka.archives),
    (frozenset({"s3", "stores", "own_store"}), s3.versitygw),
    (frozenset({"postgres", "own_postgres"}), postgres.binaries),
)
"""Names of fixtures, and what makes that which they need, in the order in which the tests need it."""


def fetch_ahead(fixtures: Collection[str]) -> None:
    """Begin to make what fixtures need, one after the other. A test that needs something waits for it.

    What cannot be made is tried again, and then fails, where a test asks for it.
    """
    wanted = [make for names, make in MAKERS if not names.isdisjoint(fixtures)]

    def make_all() -> None:
        for make in wanted:
            try:
                make()
            except Exception as error:
                print(f"could not be made ahead: {error}")

    threading.Thread(target=make_all, name="fetch-ahead", daemon=True).start()
