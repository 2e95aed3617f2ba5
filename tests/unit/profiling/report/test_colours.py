"""Colours of kinds: every kind has one, and readers can tell them apart."""

from itertools import combinations

import pytest

from rechannel.profiling.job.trace import JOB_KINDS
from rechannel.profiling.model.trace import SNAILTRAIL
from rechannel.profiling.report.colours import KIND_COLOURS, SPARE, colour_of, in_order
from rechannel.profiling.spark.trace import SPARK_KINDS

LIGHT, DARK = "#ffffff", "#14171a"
# Linear light as eyes without red (protan) or green (deutan) receptors see it: Viénot, Brettel and Mollon (1999).
EYES = {
    "usual": ((1, 0, 0), (0, 1, 0), (0, 0, 1)),
    "protan": ((0.11238, 0.88762, 0), (0.11238, 0.88762, 0), (0.00401, -0.00401, 1)),
    "deutan": ((0.29275, 0.70725, 0), (0.29275, 0.70725, 0), (-0.02234, 0.02234, 1)),
}
# Kinds that fill a timeline beside each other.
BESIDE = (
    "processing",
    "fetch wait",
    "shuffle write",
    "garbage collection",
    "failed work",
    "scheduling",
    "driver program",
)


def linear(colour):
    parts = [int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5)]
    return [p / 12.92 if p <= 0.04045 else ((p + 0.055) / 1.055) ** 2.4 for p in parts]


def seen(colour, eye):
    light = linear(colour)
    return [max(0, sum(a * b for a, b in zip(row, light, strict=True))) for row in EYES[eye]]


def oklab(light):
    r, g, b = light
    l = (0.4122214708 * r + 0.5363325363 * g + 0.0514459929 * b) ** (1 / 3)  # noqa: E741
    m = (0.2119034982 * r + 0.6806995451 * g + 0.1073969566 * b) ** (1 / 3)
    s = (0.0883024619 * r + 0.2817188376 * g + 0.6299787005 * b) ** (1 / 3)
    return (
        0.2104542553 * l + 0.7936177850 * m - 0.0040720468 * s,
        1.9779984951 * l - 2.4285922050 * m + 0.4505937099 * s,
        0.0259040371 * l + 0.7827717662 * m - 0.8086757660 * s,
    )


def distance(a, b, eye):
    pair = zip(oklab(seen(a, eye)), oklab(seen(b, eye)), strict=True)
    return sum((x - y) ** 2 for x, y in pair) ** 0.5


def contrast(a, b):
    high, low = sorted(
        (
            sum(w * p for w, p in zip((0.2126, 0.7152, 0.0722), linear(c), strict=True))
            for c in (a, b)
        ),
        reverse=True,
    )
    return (high + 0.05) / (low + 0.05)


@pytest.mark.parametrize("kind", [*SPARK_KINDS, *JOB_KINDS, *SNAILTRAIL.values()])
def test_every_kind_has_a_colour_of_its_own_choice(kind):
    assert kind in KIND_COLOURS


def test_other_kinds_have_the_same_colour_everywhere():
    assert colour_of("parsing") == colour_of("parsing")
    assert colour_of("parsing") in SPARE


@pytest.mark.parametrize("eye", EYES)
@pytest.mark.parametrize(("a", "b"), [*combinations(BESIDE, 2)])
def test_kinds_beside_each_other_differ_for_every_eye(a, b, eye):
    assert distance(KIND_COLOURS[a], KIND_COLOURS[b], eye) > 0.1


@pytest.mark.parametrize("colour", sorted({*KIND_COLOURS.values(), *SPARE}))
def test_colours_stand_out_by_day_and_by_night(colour):
    assert contrast(colour, LIGHT) > 1.8
    assert contrast(colour, DARK) > 1.8


def test_kinds_are_stacked_in_the_order_of_the_table():
    assert in_order(["idle", "own", "processing", "scheduling"]) == [2, 3, 0, 1]
