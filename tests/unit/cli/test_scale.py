"""`rechannel scale`: what it prints, and how it fails."""

import json
from pathlib import Path

import pytest

import rechannel as rc
from tests.unit.scaling.files.word_count import write_word_count

LABELLED = Path(__file__).parents[1] / "profiling" / "labelled"


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


STREAM = LABELLED / "held_out" / "logs" / "orders-in-time.zstd"


def test_an_event_log_gives_sentences_and_a_table_for_each_stream(rechannel):
    reaction = rechannel("scale", STREAM, "--rate", "2000", "--executor-cores", "4")
    assert reaction.code == 0
    assert reaction.lines[0] == "application, Spark 4.3.0: 2 cores"
    assert any(
        each.startswith("orders: for 2,000 rows per second (as given) in batches every 5.0 s")
        for each in reaction.lines
    )
    (header,) = [each for each in reaction.lines if each.startswith("cores  ")]
    assert header.split() == [
        "cores",
        "executors",
        "partitions",
        "batch",
        "s",
        "from",
        "to",
        "of",
        "interval",
    ]
    assert any(each.endswith("advised") for each in reaction.lines)


def test_an_event_log_as_json_has_the_values_of_python(rechannel):
    told = json.loads(rechannel("scale", STREAM, "--interval", "2 seconds", "--json").out)
    made = rc.scaling_advice(STREAM, interval=2.0)
    assert told["queries"][0]["advised"]["batch_ms"] == made.queries[0].advised.batch_ms
    assert told["queries"][0]["interval_from"] == "given"
    assert told["sentences"][0].startswith("orders: ")


def test_batch_jobs_have_a_table_of_cores(rechannel):
    reaction = rechannel("scale", LABELLED / "logs" / "last-wave.zstd")
    assert reaction.lines[1] == "5 cores are enough: 16.4 s, and with any number at least 16.4 s."
    cores = [each.split()[0] for each in reaction.lines[-7:]]
    assert cores == ["cores", "1", "2", "4", "5", "8", "16"]


def test_a_log_from_which_nothing_follows_has_a_note(rechannel):
    reaction = rechannel("scale", LABELLED / "logs" / "stream-above-capacity.zstd")
    assert reaction.code == 0
    assert reaction.err == (
        "note: 4 tasks have no end in the log: the end of the stage or of the log counts\n"
        "note: query orders has 2 batches with rows after its warm-up, and advice needs 3:"
        " let it run longer\n"
    )
    other = rechannel("scale", STREAM, "--query", "sums")
    assert other.code == 2
    assert "has no query 'sums': choose one of orders" in other.err
