"""SnailTrail's records."""

import msgpack
import pytest

from rechannel.errors import TraceError
from rechannel.profiling.files.snailtrail import read_records
from rechannel.profiling.model.analysis import ProfileOptions
from rechannel.profiling.reading import analyse_file, profile_trace
from tests.unit.profiling.files.test_table import summed
from tests.unit.profiling.model.test_participation import paper

PROCESSING, DATA = 4, 10


def records(trace):
    """Of the example of the paper."""
    did, went = trace.activities, trace.messages
    out = []
    for i in range(len(did)):
        worker = int(did.worker[i])
        out.append([int(did.start[i]), worker, PROCESSING, 1, -1, -1, i])
        out.append([int(did.end[i]), worker, PROCESSING, 2, -1, -1, i])
    for i in range(len(went)):
        source, target = int(went.source[i]), int(went.target[i])
        out.append([int(went.sent[i]), source, DATA, 3, i, target, -1])
        out.append([int(went.received[i]), target, DATA, 4, i, source, -1])
    return out


def written(tmp_path, rows):
    file = tmp_path / "trace.msgpack"
    file.write_bytes(b"".join(msgpack.packb(row) for row in rows))
    return file


def test_the_example_of_the_paper(tmp_path):
    found = read_records(written(tmp_path, records(paper())))
    assert found.halves == 0
    known = {f"{i}": share for i, share in enumerate(summed(paper()).values())}
    assert sorted(summed(found.trace).values()) == pytest.approx(sorted(known.values()))
    assert (
        analyse_file(written(tmp_path, records(paper())), ProfileOptions(window=9e-9)).profile.known
        == 1
    )


def test_halves(tmp_path):
    rows = [
        [5, 0, PROCESSING, 2, -1, -1, -1],  # it had begun before
        [0, 0, 3, 5, -1, -1, -1],  # says nothing
        [7, 1, PROCESSING, 1, -1, -1, -1],  # and goes on
        [9, 0, DATA, 3, 1, 1, -1],
        [4, 0, DATA, 4, 2, 1, -1],
        [9, 0, DATA, 3, 3, 1, -1],
        [8, 1, DATA, 4, 3, 0, -1],  # before it was sent
    ]
    found = read_records(written(tmp_path, rows))
    assert found.halves == 4
    spans = list(
        zip(found.trace.activities.start.tolist(), found.trace.activities.end.tolist(), strict=True)
    )
    assert spans == [(0, 5), (7, 9)]
    assert profile_trace(found.trace, window=9).cells.collect()["critical"].sum() == pytest.approx(
        1
    )


@pytest.mark.parametrize(
    ("rows", "words"),
    [
        ([[1, 2, 3]], "record 0 of .* is not 7 whole numbers"),
        ([[0, 0, 4, 1, -1, -1, -1], "text"], "record 1 of"),
        ([[0, 0, 99, 1, -1, -1, -1]], "activity type 99; they are 1 to 13"),
        ([["x", 0, 4, 1, -1, -1, -1]], "record 0 of"),
        ([["1", 0, 4, 1, -1, -1, -1]], "record 0 of"),
        ([[1.5, 0, 4, 1, -1, -1, -1]], "record 0 of"),
        ([[None, 0, 4, 1, -1, -1, -1]], "record 0 of"),
        ([[0, 0, {}, 1, -1, -1, -1]], "record 0 of"),
        ([[1 << 63, 0, 4, 1, -1, -1, -1]], "not a trace of SnailTrail"),
        (
            [[0, 0, 4, 1, -1, -1, -1], [1 << 62, 0, 4, 2, -1, -1, -1]],
            "the trace lasts 53,376 days",
        ),
    ],
)
def test_what_is_no_record(tmp_path, rows, words):
    with pytest.raises(TraceError, match=words):
        read_records(written(tmp_path, rows))


def test_records_are_read_block_by_block(tmp_path, monkeypatch):
    rows = records(paper())
    file = written(tmp_path, rows)
    whole = read_records(file)
    monkeypatch.setattr("rechannel.profiling.files.snailtrail.BLOCK_ROWS", 5)
    assert len(rows) > 10
    assert summed(read_records(file).trace) == pytest.approx(summed(whole.trace))


def test_what_is_no_message_pack_has_a_reason(tmp_path):
    file = tmp_path / "trace.msgpack"
    file.write_bytes(b"\xc1")
    with pytest.raises(TraceError, match=r"not a trace of SnailTrail: .+"):
        read_records(file)
