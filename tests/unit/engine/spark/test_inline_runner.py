"""Timesteps that the driver runs itself: whose fault their errors are."""

from types import SimpleNamespace

import pytest

from rechannel.engine.failures.blame import Blame, blame_of
from rechannel.engine.spark.inline import InlineRunner
from rechannel.errors import StorageError


def running(error):
    """Run a unit in the driver that fails with an error."""

    def fails(*_):
        raise error

    here = SimpleNamespace(programs={}, readers={}, open=lambda _: None, run=fails)
    runner = InlineRunner(SimpleNamespace(open=lambda _: None), here)
    runner.open(SimpleNamespace(number=1, inline=object()))
    return lambda: runner.run(1, "totals", None)


@pytest.mark.parametrize(
    ("error", "blame"),
    [
        (OSError(28, "No space left on device"), Blame.CLUSTER),
        (MemoryError("no room"), Blame.CLUSTER),
        (StorageError("the store does not answer"), Blame.STORE),
        (ValueError("a mistake"), Blame.USER),
    ],
)
def test_what_the_host_lacks_passes_as_on_spark(error, blame):
    with pytest.raises(Exception) as told:  # noqa: PT011 - whichever it is
        running(error)()
    assert blame_of(told.value) is blame
