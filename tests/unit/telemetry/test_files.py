import pytest

from rechannel.telemetry.files import EventFiles, event_files

HEADER = b'{"format":1,"file":"rechannel telemetry","first":%d}\n'


def open_files(directory, roll_bytes=10_000, keep_files=10):
    return EventFiles(directory, roll_bytes=roll_bytes, keep_files=keep_files)


def contents(directory):
    return {first: path.read_bytes() for first, path in event_files(directory)}


def test_nothing_is_made_before_there_is_something_to_write(tmp_path):
    open_files(tmp_path / "telemetry").close()
    assert not (tmp_path / "telemetry").exists()
    assert event_files(tmp_path / "telemetry") == []


def test_a_header_and_lines(tmp_path):
    files = open_files(tmp_path / "a" / "telemetry")
    files.append([b"{1}", b"{2}"])
    files.append([b"{3}"])
    files.close()
    assert contents(tmp_path / "a" / "telemetry") == {0: HEADER % 0 + b"{1}\n{2}\n{3}\n"}
    assert [path.name for path in (tmp_path / "a" / "telemetry").iterdir()] == [
        "00000000000000000000.jsonl"
    ]


def test_files_roll_by_size_and_are_named_by_their_first_event(tmp_path):
    files = open_files(tmp_path, roll_bytes=len(HEADER % 0) + 8)
    for lines in ([b"{1}"], [b"{2}", b"{3}"], [b"{4}"], [b"{5}"]):
        files.append(lines)
    files.close()
    assert contents(tmp_path) == {
        0: HEADER % 0 + b"{1}\n{2}\n{3}\n",
        3: HEADER % 3 + b"{4}\n{5}\n",
    }


def test_old_files_are_deleted(tmp_path):
    files = open_files(tmp_path, roll_bytes=1, keep_files=3)
    for _ in range(7):
        files.append([b"{}"])
    files.close()
    assert sorted(contents(tmp_path)) == [4, 5, 6]


def test_a_new_writer_goes_on_in_a_new_file(tmp_path):
    for _ in range(3):
        files = open_files(tmp_path)
        files.append([b"{}", b"{}"])
        files.close()
    assert sorted(contents(tmp_path)) == [0, 2, 4]


def test_a_torn_line_has_no_number(tmp_path):
    files = open_files(tmp_path)
    files.append([b"{}", b"{}"])
    files.close()
    with (tmp_path / "00000000000000000000.jsonl").open("ab") as file:
        file.write(b'{"event": "no')
    files = open_files(tmp_path)
    files.append([b"{3}"])
    files.close()
    assert contents(tmp_path)[2] == HEADER % 2 + b"{3}\n"


@pytest.mark.parametrize("torn", [b"", b'{"form', HEADER % 0])
def test_a_file_without_events_is_replaced(tmp_path, torn):
    (tmp_path / "00000000000000000000.jsonl").write_bytes(torn)
    files = open_files(tmp_path)
    files.append([b"{1}"])
    files.close()
    assert contents(tmp_path) == {0: HEADER % 0 + b"{1}\n"}


def test_other_files_are_left_alone(tmp_path):
    for name in ("readme.txt", "12.jsonl", "x" * 20 + ".jsonl"):
        (tmp_path / name).write_text("mine")
    files = open_files(tmp_path, roll_bytes=1, keep_files=1)
    for _ in range(3):
        files.append([b"{}"])
    files.close()
    assert sorted(contents(tmp_path)) == [2]
    assert len(list(tmp_path.iterdir())) == 4


class TornFile:
    """A file on a disk that is full after `room` more bytes."""

    def __init__(self, file, room):
        self._file, self._room = file, room

    def write(self, data):
        if self._room == 0:
            raise OSError(28, "No space left on device")
        written = self._file.write(data[: self._room])
        self._room -= written
        return written

    def close(self):
        self._file.close()


@pytest.mark.parametrize("room", range(12))
def test_after_a_failed_write_a_new_file_begins(tmp_path, room):
    files = open_files(tmp_path)
    files.append([b"{1}"])
    files._file = TornFile(files._file, room)
    with pytest.raises(OSError, match="No space"):
        files.append([b"{22}", b"{33}", b"{44}"])
    files.append([b"{5}"])
    files.close()
    whole = b"{22}\n{33}\n{44}\n"[:room].count(b"\n")
    assert contents(tmp_path)[1 + whole] == HEADER % (1 + whole) + b"{5}\n"
    assert contents(tmp_path)[0] == HEADER % 0 + b"{1}\n" + b"{22}\n{33}\n{44}\n"[:room]


@pytest.mark.parametrize("settings", [{"roll_bytes": 0}, {"keep_files": 0}])
def test_impossible_bounds(tmp_path, settings):
    with pytest.raises(ValueError, match="must be positive"):
        open_files(tmp_path, **settings)
