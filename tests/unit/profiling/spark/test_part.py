"""A part of an application."""

from dataclasses import replace

from rechannel.profiling.model.trace import MS
from rechannel.profiling.spark.log import SparkLog
from rechannel.profiling.spark.part import part_of
from tests.unit.profiling.logs import START, small


def facts():
    return SparkLog().read(small()).facts()


def test_all_of_it_is_the_application_itself():
    app = facts()
    assert part_of(app, START * MS, (START + 800) * MS) is app


def test_what_began_before_or_is_not_over_is_left_out():
    app = facts()
    assert (len(app.tasks), list(app.jobs)) == (3, [0])
    app = replace(app, exceptions={"java.lang.Error": 3})
    later = part_of(app, (START + 515) * MS, (START + 800) * MS)
    assert (len(later.tasks), list(later.jobs)) == (1, [])
    assert (later.start, later.end) == (START + 515, START + 800)
    assert list(later.tasks.stages) == [(1, 0)]
    earlier = part_of(app, START * MS, (START + 510) * MS)
    assert (len(earlier.tasks), list(earlier.tasks.stages)) == (2, [(0, 0)])
    job = part_of(app, (START + 100) * MS, (START + 720) * MS)
    assert (len(job.tasks), list(job.jobs)) == (3, [0])
    # Which exceptions were thrown then is not known.
    assert later.exceptions == {}
    # The application itself is as it was.
    assert (len(app.tasks), len(app.tasks.stages)) == (3, 2)
