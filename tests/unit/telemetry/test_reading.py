import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rechannel.errors import DamagedStateError, NewerFormatError
from rechannel.telemetry.events import Note, event_to_json
from rechannel.telemetry.files import EventFiles, event_files
from rechannel.telemetry.reading import EventReader, read_events


def note(number):
    return Note(at_ms=number, topic="test", text="x" * (number % 7))


def lines(start, stop):
    return [json.dumps(event_to_json(note(number))).encode() for number in range(start, stop)]


def write(directory, start, stop, **settings):
    files = EventFiles(directory, **{"roll_bytes": 10_000, "keep_files": 100, **settings})
    for line in lines(start, stop):
        files.append([line])
    files.close()


def numbers(events):
    return [event.at_ms for event in events]


def never(_seconds):
    pytest.fail("nothing is torn, so there is nothing to wait for")


def test_a_directory_that_is_not_there_yet(tmp_path):
    assert list(read_events(tmp_path / "telemetry", sleep=never)) == []
    reader = EventReader(tmp_path / "telemetry")
    assert list(reader.read()) == []
    write(tmp_path / "telemetry", 0, 2)
    assert numbers(reader.read()) == [0, 1]


@pytest.mark.parametrize("roll_bytes", [1, 100, 300, 10_000])
@pytest.mark.parametrize("after", [0, 1, 4, 9, 10, 11])
def test_events_come_in_order_from_any_position(tmp_path, roll_bytes, after):
    write(tmp_path, 0, 10, roll_bytes=roll_bytes)
    assert numbers(read_events(tmp_path, after=after, sleep=never)) == list(range(after, 10))


def test_a_reader_goes_on_where_it_stopped(tmp_path):
    reader = EventReader(tmp_path)
    seen = []
    for start in range(0, 30, 5):
        write(tmp_path, start, start + 5, roll_bytes=150)
        assert reader.position == start
        seen += numbers(reader.read())
    assert seen == list(range(30))
    assert reader.position == 30


def test_a_reader_may_be_left_and_taken_up(tmp_path):
    write(tmp_path, 0, 10, roll_bytes=150)
    reader = EventReader(tmp_path)
    reading = reader.read()
    assert numbers([next(reading), next(reading)]) == [0, 1]
    assert reader.position == 2
    assert numbers(EventReader(tmp_path, after=reader.position).read()) == list(range(2, 10))


def test_deleted_events_are_passed_over(tmp_path):
    write(tmp_path, 0, 3, roll_bytes=1)
    reader = EventReader(tmp_path)
    assert numbers(reader.read()) == [0, 1, 2]
    write(tmp_path, 3, 20, roll_bytes=1, keep_files=2)
    assert numbers(reader.read()) == [18, 19]
    assert reader.position == 20
    assert numbers(read_events(tmp_path, sleep=never)) == [18, 19]


@given(st.lists(st.integers(0, 400), max_size=4))
def test_whatever_is_written_in_between_events_come_once_and_whole(tmp_path_factory, cuts):
    """The file grows byte by byte, as another process sees it."""
    source, seen = tmp_path_factory.mktemp("source"), tmp_path_factory.mktemp("seen")
    write(source, 0, 6, roll_bytes=220)
    reader = EventReader(seen)
    found = []
    for _, path in event_files(source):
        data = path.read_bytes()
        for cut in sorted(cuts):
            (seen / path.name).write_bytes(data[:cut])
            found += numbers(reader.read())
            assert reader.torn == (not data[:cut].endswith(b"\n") and cut > 0)
        (seen / path.name).write_bytes(data)
        found += numbers(reader.read())
        assert not reader.torn
    assert found == list(range(6))


def test_a_torn_last_line_is_waited_for(tmp_path):
    write(tmp_path, 0, 3)
    (_, path), *_ = event_files(tmp_path)
    data = path.read_bytes()
    path.write_bytes(data[:-10])
    waited = []

    def sleep(seconds):
        waited.append(seconds)
        if len(waited) == 4:
            path.write_bytes(data)

    assert numbers(read_events(tmp_path, sleep=sleep)) == [0, 1, 2]
    assert len(waited) == 4


def test_a_writer_that_died_is_not_waited_for_for_ever(tmp_path):
    write(tmp_path, 0, 3)
    (_, path), *_ = event_files(tmp_path)
    path.write_bytes(path.read_bytes()[:-10])
    waited = []
    assert numbers(read_events(tmp_path, wait_s=0.5, sleep=waited.append)) == [0, 1]
    assert sum(waited) == pytest.approx(0.5)


def test_a_torn_line_that_a_new_writer_left_behind_is_no_event(tmp_path):
    write(tmp_path, 0, 3)
    (_, path), *_ = event_files(tmp_path)
    path.write_bytes(path.read_bytes()[:-10])
    write(tmp_path, 2, 4)
    assert numbers(read_events(tmp_path, sleep=never)) == [0, 1, 2, 3]


def test_a_torn_header_is_waited_for(tmp_path):
    write(tmp_path, 0, 1)
    (_, path), *_ = event_files(tmp_path)
    data = path.read_bytes()
    path.write_bytes(data[:9])
    reader = EventReader(tmp_path)
    assert list(reader.read()) == []
    assert reader.torn
    path.write_bytes(data)
    assert numbers(reader.read()) == [0]


def test_unknown_events_are_left_out_and_counted(tmp_path):
    files = EventFiles(tmp_path, roll_bytes=1000, keep_files=1)
    files.append([*lines(0, 1), b'{"event":"of a later version","a":[1]}', *lines(2, 3)])
    files.close()
    reader = EventReader(tmp_path)
    assert numbers(reader.read()) == [0, 2]
    assert reader.position == 3


@pytest.mark.parametrize(
    "line", [b"", b"{", b"[1]", b"\xff\xfe", b'{"event":"note"}', b'"note"', b'{"evnt":"note"}']
)
def test_a_damaged_line_is_named(tmp_path, line):
    files = EventFiles(tmp_path, roll_bytes=1000, keep_files=1)
    files.append([*lines(0, 1), line, *lines(2, 3)])
    files.close()
    reading = read_events(tmp_path, sleep=never)
    assert next(reading) == note(0)
    with pytest.raises(DamagedStateError, match=r"line 3 of .*0\.jsonl is not an event"):
        next(reading)
    told = []
    reader = EventReader(tmp_path, bad=told.append)
    assert numbers(reader.read()) == [0, 2]
    assert reader.position == 3
    assert len(told) == 1
    assert "line 3 of" in told[0]


def test_a_later_format_is_refused(tmp_path):
    (tmp_path / f"{0:020d}.jsonl").write_bytes(b'{"format":2}\n{"event":"note"}\n')
    with pytest.raises(NewerFormatError, match=r"has format 2; .* reads up to 1"):
        list(read_events(tmp_path))


@pytest.mark.parametrize("header", [b"{}", b"hello", b"[]", b'{"format":"x"}'])
def test_a_file_of_something_else_is_refused(tmp_path, header):
    (tmp_path / f"{0:020d}.jsonl").write_bytes(header + b"\n")
    with pytest.raises(DamagedStateError, match="does not begin with a telemetry header"):
        list(read_events(tmp_path))
