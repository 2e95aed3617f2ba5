"""How values are written as text."""

from __future__ import annotations

import pytest

from rechannel.errors import RefusedError
from rechannel.reconfigure.notation import (
    amounts,
    bin_numbers,
    bound,
    byte_count,
    mebibytes,
    milliseconds,
    whole_milliseconds,
)


def test_times_and_sizes():
    assert [milliseconds(t) for t in ("50ms", "2s", "1.5 min", "7")] == [50, 2000, 90000, 7]
    assert whole_milliseconds("0.5s") == 500
    assert [byte_count(t) for t in ("10MB", "512KiB", "1.5 kB", "7")] == [10**7, 2**19, 1500, 7]
    assert mebibytes("4GiB") == 4096


@pytest.mark.parametrize("read", [milliseconds, byte_count])
@pytest.mark.parametrize("wrong", ["", "ms", "-1ms", "1e9s", "1,5s", "5 apples", "9" * 99])
def test_other_texts_are_refused(read, wrong):
    with pytest.raises(RefusedError, match="write "):
        read(wrong)


def test_bin_numbers():
    assert bin_numbers("3") == (3,)
    assert bin_numbers("0-3, 9") == (0, 1, 2, 3, 9)
    for wrong in ("", "a", "3-1", "-1", "1-", "0-99999999", "1;2"):
        with pytest.raises(RefusedError, match="is not a list of bins"):
            bin_numbers(wrong)


def test_amounts_by_name():
    assert amounts(["gpu=0.5", "fpga=1"]) == {"gpu": 0.5, "fpga": 1}
    for wrong in ("gpu", "=1", "gpu=", "gpu=1s"):
        with pytest.raises(RefusedError, match="write it like gpu="):
            amounts([wrong])


def test_bounds():
    assert (bound("5"), bound("none")) == (5, None)
    with pytest.raises(RefusedError, match="write a number, or none"):
        bound("-5")
