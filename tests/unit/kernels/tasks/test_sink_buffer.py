"""Rows of sink buffers, in memory and on disk."""

import pyarrow as pa
import pytest

from rechannel.kernels.tasks.sink_buffer import SinkBuffer

PLAIN = [pa.record_batch({"v": list(range(n, n + 100))}) for n in (0, 100, 200, 300)]
ENCODED = [pa.record_batch({"v": pa.array([str(n)] * 100).dictionary_encode()}) for n in range(3)]


@pytest.mark.parametrize("most", [0, 1_000, 1 << 20])
def test_batches_come_back_in_order_wherever_they_were(most):
    buffer = SinkBuffer()
    for plain, encoded in zip(PLAIN, [*ENCODED, None], strict=True):
        buffer.add("a", plain, most)
        if encoded is not None:
            buffer.add("b", encoded, most)
            buffer.add("a", encoded, most)
    found = {node: [b.to_pydict() for b in batches] for node, batches in buffer.batches()}
    buffer.close()
    a = [PLAIN[0], ENCODED[0], PLAIN[1], ENCODED[1], PLAIN[2], ENCODED[2], PLAIN[3]]
    assert found == {"a": [b.to_pydict() for b in a], "b": [b.to_pydict() for b in ENCODED]}


def test_what_cannot_go_to_disk_counts_and_each_batch_goes_there_once(monkeypatch):
    buffer, written = SinkBuffer(), list[int]()
    write = buffer._spool.write
    monkeypatch.setattr(buffer._spool, "write", lambda data: written.append(1) or write(data))
    buffer.add("a", ENCODED[0], 100)
    assert not written
    for number, batch in enumerate(PLAIN, 1):
        buffer.add("a", batch, 100)
        assert len(written) == number
    buffer.close()
