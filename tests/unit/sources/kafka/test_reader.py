"""Topics as the driver reads them, over brokers that say what a test wants."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime

import pytest

import rechannel as rc
from rechannel.errors import DataflowError, SourceError, StorageError
from rechannel.sources.kafka.connector import KafkaConnector
from rechannel.sources.kafka.offsets import Ends, Part, TopicSeen
from rechannel.sources.kafka.reader import KafkaReader
from rechannel.sources.reader import Bound


class Told:
    """Brokers with one topic."""

    def __init__(self, *highs: int) -> None:
        self.topics: dict[str, TopicSeen] = {}
        self.first: dict[Part, int] = {}
        self.silent: SourceError | None = None
        self.told: list[dict[Part, int]] = []
        self.anew: list[bool] = []
        self.asked: list[list[str]] = []
        self.has(*highs)

    def has(self, *highs: int, known_as: str = "one") -> None:
        parts = {number: Ends(low=0, high=high) for number, high in enumerate(highs)}
        self.topics["t"] = TopicSeen(id=known_as, parts=parts)

    def look(self, *, anew: bool) -> dict[str, TopicSeen]:
        self.anew.append(anew)
        if self.silent is not None:
            raise self.silent
        return dict(self.topics)

    def ids(self, topics):
        self.asked.append(sorted(topics))
        if self.silent is not None:
            raise self.silent
        return {topic: of.id for topic, of in self.topics.items() if topic in topics}

    def starting(self, seen):
        return self.first

    def tell(self, offsets):
        self.told.append(dict(offsets))

    def close(self):
        pass


def reader(brokers: Told, **more) -> KafkaReader:
    connector = KafkaConnector(bootstrap="h:9092", topics=("t",), **more)
    return KafkaReader(connector, name="clicks", brokers=brokers)


def test_a_timestep_takes_what_it_may_and_the_rest_is_backlog():
    brokers = Told(60, 40)
    source = reader(brokers, per_timestep=30)
    start = source.latest(source.initial(), 0)
    assert source.backlog(start, 0).rows == 70
    assert sum(each["size"] for each in source.layout(source.initial(), start)) == 30
    end = source.latest(start, 0, Bound(units=1_000))
    assert source.backlog(end, 0).rows == 0
    assert source.latest(end, 0) is end
    assert brokers.anew == [True, False, False]
    source.committed(end)
    assert brokers.told == [{Part("t", 0): 60, Part("t", 1): 40}]


def test_bytes_bound_a_timestep_too():
    source = reader(Told(10_000_000))
    end = source.latest(source.initial(), 0, Bound(bytes=100_000))
    assert 100 < sum(each["size"] for each in source.layout(source.initial(), end)) < 10_000


@pytest.mark.parametrize("starting", ["latest", datetime(2026, 1, 1, tzinfo=UTC), {"t": {1: 5}}])
def test_a_stream_does_not_begin_before_the_offsets_of_all_partitions_are_known(starting):
    """A partition that is found later would be taken for an added one, and be read from its first record."""
    brokers = Told(60)
    brokers.topics["t"] = replace(brokers.topics["t"], silent=frozenset({1}))
    source = reader(brokers, starting=starting)
    with pytest.raises(SourceError, match=r"do not tell the offsets of t/1, .* start again later"):
        source.latest(source.initial(), 0)
    brokers.has(60, 40)
    brokers.first = {Part("t", 0): 60, Part("t", 1): 5}
    begun = source.latest(source.initial(), 0)
    assert begun["topics"]["t"]["from"] == {"0": 60, "1": 5}


def test_from_the_first_record_on_partitions_may_be_found_later():
    brokers = Told(60)
    brokers.topics["t"] = replace(brokers.topics["t"], silent=frozenset({1}))
    source = reader(brokers)
    begun = source.latest(source.initial(), 0)
    brokers.has(60, 40)
    assert source.backlog(source.latest(begun, 0), 0).rows == 0


def test_a_stream_that_begins_at_the_end_journals_its_place_before_the_first_record():
    brokers = Told(60)
    brokers.first = {Part("t", 0): 60}
    source = reader(brokers, starting="latest")
    begun = source.latest(source.initial(), 0)
    assert begun != source.initial()
    assert source.layout(source.initial(), begun) == []
    assert source.latest(begun, 0) is begun


def test_brokers_that_do_not_answer_are_a_complaint_but_at_the_first_look():
    brokers = Told(60)
    source = reader(brokers)
    begun = source.latest(source.initial(), 0)
    brokers.silent = SourceError("no answer")
    assert source.latest(begun, 0) is begun
    assert source.complaint is brokers.silent
    brokers.silent = None
    assert source.latest(begun, 0) is begun
    assert source.complaint is None
    brokers.silent = SourceError("no answer")
    with pytest.raises(SourceError, match="no answer"):
        reader(brokers).latest(source.initial(), 0)


def test_a_topic_made_anew_stops_the_job_or_is_read_from_its_first_record():
    brokers = Told(60)
    source = reader(brokers)
    begun = source.latest(source.initial(), 0)
    brokers.has(7, known_as="two")
    with pytest.raises(
        SourceError, match=r"t/0 belongs to a topic .* made anew: restore the records, or .*skip"
    ):
        source.latest(begun, 0)
    lenient = reader(brokers, on_lost="skip")
    end = lenient.latest(begun, 0)
    assert [(s["start"], s["stop"]) for s in lenient.layout(begun, end)] == [(0, 7)]
    assert "reading continues with the first record that is there" in str(lenient.complaint)
    assert lenient.latest(end, 0) is end
    assert lenient.complaint is None


def test_ranges_of_a_topic_that_was_made_anew_since_they_were_planned_are_not_read():
    """As when a driver takes over: a timestep that was planned runs again without a look."""
    brokers = Told(60)
    source = reader(brokers)
    start, end = source.initial(), source.latest(source.initial(), 0)
    layout = source.layout(start, end)
    assert [split["id"] for split in layout] == ["one"]
    assert source.split_reader(start, end, layout).gone == frozenset()
    assert brokers.asked == []  # it was just looked at
    assert source.split_reader(start, end, layout).gone == frozenset()
    assert brokers.asked == [["t"]]
    brokers.has(100, known_as="two")
    for ask in (reader(brokers).split_reader, reader(brokers).check_again):
        with pytest.raises(
            SourceError, match=r"topic 't' \(one\) is gone, or was made anew: restore"
        ):
            ask(start, end, layout)
    skipping = reader(brokers, on_lost="skip").split_reader(start, end, layout)
    assert [*skipping.read(layout[0])] == []
    before_ids = [{name: what for name, what in split.items() if name != "id"} for split in layout]
    before = {"topics": {"t": {**end["topics"]["t"], "id": ""}}}
    assert reader(brokers).split_reader(start, before, before_ids).gone == frozenset()


def test_planned_ranges_wait_for_brokers_that_do_not_answer():
    brokers = Told(60)
    source = reader(brokers)
    start, end = source.initial(), source.latest(source.initial(), 0)
    layout = source.layout(start, end)
    brokers.silent = SourceError("no answer")
    with pytest.raises(StorageError, match="no answer"):
        reader(brokers).split_reader(start, end, layout)


def test_planned_ranges_of_a_topic_that_is_no_longer_read_are_read():
    brokers = Told(60)
    brokers.topics["u"] = TopicSeen(id="x", parts={0: Ends(low=0, high=5)})
    both = KafkaConnector(bootstrap="h:9092", topics=("t", "u"))
    source = KafkaReader(both, brokers=brokers)
    start, end = source.initial(), source.latest(source.initial(), 0)
    layout = source.layout(start, end)
    assert reader(brokers).split_reader(start, end, layout).gone == frozenset()


def test_a_topic_that_is_gone_is_told_once_where_that_is_allowed():
    brokers = Told(60)
    source = reader(brokers, on_lost="skip")
    begun = source.latest(source.initial(), 0)
    gone, brokers.topics = brokers.topics, {}
    assert source.latest(begun, 0) is begun
    assert "topic 't' (one) is gone" in str(source.complaint)
    assert source.latest(begun, 0) is begun
    assert source.complaint is None
    assert brokers.anew == [True, False, True, False]
    brokers.topics = gone
    assert source.latest(begun, 0) is begun


def test_a_stream_that_found_no_topic_has_begun():
    """Topics that are found later are read from their first record, wherever it begins."""
    brokers = Told()
    brokers.topics.clear()
    connector = KafkaConnector(bootstrap="h:9092", pattern="t.*", starting="latest")
    source = KafkaReader(connector, name="clicks", brokers=brokers)
    begun = source.latest(source.initial(), 0)
    assert begun == {"topics": {}, "begun": True}
    assert source.latest(begun, 0) is begun
    brokers.has(500)
    brokers.first = {Part("t", 0): 500}
    end = source.latest(begun, 0)
    assert [(s["start"], s["stop"]) for s in source.layout(begun, end)] == [(0, 500)]


def test_what_was_asked_a_while_ago_is_asked_again_before_records_count_as_lost():
    brokers = Told(60)
    source = reader(brokers)
    begun = source.latest(source.initial(), 0)
    stale = brokers.topics["t"]

    def look(*, anew):
        brokers.anew.append(anew)
        return {"t": stale if anew else TopicSeen(id="one", parts={0: Ends(low=0, high=5)})}

    brokers.look = look
    assert source.latest(begun, 0) is begun
    assert brokers.anew == [True, False, True]


def test_brokers_that_do_not_answer_when_they_are_asked_again_lose_nothing():
    brokers = Told(60)
    source = reader(brokers)
    begun = source.latest(source.initial(), 0)

    def look(*, anew):
        if anew:
            raise SourceError("no answer")
        return {}

    brokers.look = look
    assert source.latest(begun, 0) is begun
    assert "no answer" in str(source.complaint)


def test_a_partition_that_the_brokers_do_not_know_for_one_look_is_not_read_again():
    brokers = Told(60, 40)
    source = reader(brokers)
    begun = source.latest(source.initial(), 0)
    brokers.has(60)
    assert source.latest(begun, 0) is begun
    assert source.complaint is None
    brokers.has(60, 40)
    assert source.latest(begun, 0) is begun


def test_topics_and_partitions_that_do_not_exist_are_named():
    brokers = Told(1)
    brokers.topics.clear()
    with pytest.raises(
        SourceError, match="source 'clicks': there is no topic 't' at h:9092: create"
    ):
        reader(brokers).latest({"topics": {}}, 0)
    brokers.has(1, 1)
    connector = KafkaConnector(bootstrap="h:9092", assignments={"t": (1, 4)})
    with pytest.raises(SourceError, match="topic 't' has no partition 4; there are 0, 1"):
        KafkaReader(connector, brokers=brokers).latest({"topics": {}}, 0)
    brokers.first = {Part("t", 0): 1, Part("u", 0): 1}
    with pytest.raises(SourceError, match="starting= gives an offset of u/0, which is not read"):
        reader(brokers, starting={"u": {0: 1}}).latest({"topics": {}}, 0)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({}, "one of topics, pattern=, assignments="),
        ({"topics": "a", "pattern": "b"}, "one of topics"),
        ({"pattern": "a("}, "no regular expression"),
        ({"topics": "a", "starting": "now"}, "starting must be"),
        ({"topics": "a", "starting": datetime(2026, 1, 1)}, "no time zone"),  # noqa: DTZ001
        ({"topics": "a", "starting": {"a": {0: -3}}}, r"starting\['a'\] must be"),
        ({"topics": "a", "starting": {"a": {"0": 3}}}, r"starting\['a'\] .* both whole numbers"),
        ({"topics": "a", "isolation": "none"}, "isolation must be one of read_committed"),
        ({"topics": "a", "per_timestep": 0}, "at least 1"),
        ({"topics": "a", "wait_s": 0}, "wait_s must be above 0"),
        ({"topics": "a", "options": {"group.id": "g"}}, "'group.id' cannot be set: give group="),
    ],
)
def test_what_makes_no_sense_is_refused(arguments, words):
    with pytest.raises(DataflowError, match=words):
        rc.read().kafka("h:9092", **arguments)


def test_a_stream_of_a_topic_has_its_name_and_the_columns_of_a_record():
    stream = rc.read().kafka("h:9092", "web-clicks", headers=True)
    assert stream.node.name == "web_clicks"
    assert stream.node.connector.describe() == "kafka web-clicks at h:9092"
    names = ["key", "value", "topic", "partition", "offset", "timestamp", "headers"]
    assert stream.node.connector.schema.names == names
