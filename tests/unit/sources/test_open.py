"""From connectors to readers."""

from __future__ import annotations

import pytest

from rechannel.errors import DataflowError
from rechannel.sources.frame import HandoverConnector, HandoverReader
from rechannel.sources.open import open_source
from rechannel.state.stores.memory import MemoryStore


def test_a_connector_that_nobody_knows_is_refused():
    class Other:
        schema = None

        def describe(self) -> str:
            return "something else"

    with pytest.raises(DataflowError, match=r"'in'.*something else.*Other"):
        open_source(Other(), store=MemoryStore(), name="in")


def test_batches_handed_over_are_read_in_process_without_a_session():
    reader = open_source(HandoverConnector(schema="n int"), store=MemoryStore(), name="in")
    assert isinstance(reader, HandoverReader)
    assert reader.native
