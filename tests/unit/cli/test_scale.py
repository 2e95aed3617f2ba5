"""`rechannel scale`: what it prints, and how it fails."""

import json

import pytest

from tests.unit.scaling.files.word_count import write_word_count


@pytest.fixture
def word_count(tmp_path):
    return write_word_count(tmp_path / "word-count")


def test_sentences_come_before_the_table(word_count, rechannel):
    reaction = rechannel("scale", word_count)
    assert reaction.code == 0
    assert reaction.err == ""
    assert reaction.lines == [
        "word-count: 3 epochs, the median of each operator",
        "FlatMap: 108,194 records per second will reach it, and one instance can process 114,661: 0.94 instances;"
        " 1 instead of 2.",
        "Count: 1,099,426 records per second will reach it, and one instance can process 1,907,734: 0.58 instances;"
        " keep 1.",
        "",
        "operator  has  needs  least  most  exact  records/s  of one instance",
        "FlatMap     2      1      1     2   0.94    108,194          114,661",
        "Count       1      1      1     1   0.58  1,099,426        1,907,734",
    ]


def test_options_reach_the_model(word_count, rechannel):
    more = json.loads(rechannel("scale", word_count, "--factor", "3", "--json").out)
    assert more["parallelism"] == {"FlatMap": 4, "Count": 3}
    lag = rechannel("scale", word_count, "--threshold", "1.2")
    assert lag.lines[0].endswith(
        "; 3 adjusted, since sources lag although no operator lacks instances"
    )
    assert "0.94 instances, times 1.36; keep 2." in lag.lines[1]
    timely = rechannel("scale", word_count, "--system", "timely")
    assert "All operators together: 2 workers instead of 2." in timely.lines
    (word_count / "given").write_text("Source,1000000")
    given = rechannel("scale", word_count, "--source-rates", word_count / "given", "--json")
    assert json.loads(given.out)["operators"]["FlatMap"]["target"] == 1_000_000
    (word_count / "given").write_text("FlatMap,1000")
    given = rechannel("scale", word_count, "--operator-rates", word_count / "given", "--json")
    assert json.loads(given.out)["operators"]["FlatMap"]["rate"] == 1000


def test_what_is_missing_is_a_note(word_count, rechannel):
    lines = (word_count / "rates.csv").read_text().splitlines()
    (word_count / "rates.csv").write_text("\n".join(line for line in lines if "Count" not in line))
    reaction = rechannel("scale", word_count)
    assert reaction.code == 0
    assert reaction.err == "note: Count reported nothing, and keeps what it has\n"
    assert "Count: no rate of processing is known; keep 1." in reaction.lines


def test_an_error_names_the_line_or_the_option(word_count, rechannel):
    (word_count / "rates.csv").write_text("FlatMap,1\n")
    bad = rechannel("scale", word_count)
    assert (bad.code, bad.out) == (2, "")
    assert "rates.csv, line 1: 2 fields instead of 8" in bad.err
    (word_count / "topology.csv").unlink()
    assert "add it, or name it as the topology" in rechannel("scale", word_count).err
    assert rechannel("scale", word_count, "--threshold", "0.5").code == 2
