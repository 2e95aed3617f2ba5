"""Which processors the hosts of a test's cluster have."""

import pytest

from rechannel.testing.namespaces import shared_out


@pytest.mark.parametrize(
    ("hosts", "cores", "processors", "expected"),
    [
        (["a", "b"], 1, [0, 1], {"a": (0,), "b": (1,)}),
        (["a", "b"], 2, [0, 1, 4, 5], {"a": (0, 1), "b": (4, 5)}),
        (["a", "b", "c"], 1, [3, 7], {"a": (3,), "b": (7,), "c": (3,)}),
        (["a"], 4, [0, 1], {"a": (0, 1)}),
    ],
)
def test_hosts_have_processors_of_their_own_as_far_as_they_go(hosts, cores, processors, expected):
    assert shared_out(hosts, cores, processors) == expected
