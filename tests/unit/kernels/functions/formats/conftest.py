"""A schema registry for tests of formats."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.support.schema_registry import SchemaRegistry, schema_registry


@pytest.fixture
def registry() -> Iterator[SchemaRegistry]:
    with schema_registry() as made:
        yield made
