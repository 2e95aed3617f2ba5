"""A schema registry for tests of formats."""

from __future__ import annotations

import pytest

from tests.support.schema_registry import schema_registry


@pytest.fixture
def registry():
    with schema_registry() as made:
        yield made
