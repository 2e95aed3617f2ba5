"""Heron's word count (Dhalion, VLDB'17; DS2, OSDI'18, figures 1 and 6) under four policies, in the simulator.

A generator sends a million sentences of 20 words a minute. One FlatMap instance splits 100,000 of them, and one Count
instance counts a million words. Both begin with one instance; 10 and 20 are needed. Policies decide once a minute.

On Heron, DS2 needed one decision, and Dhalion six, for 22 and 30 instances. Here records are a fluid and back-pressure
is exact, so Dhalion's formulas need one decision less, and come closer; `ContinuousEngine(low_watermark=0.6)` is closer
to Heron, and `python -m benchmarks ds2-heron` uses it. "over": instances at the end over 30.

Prints:

    policy     decisions  last after  flatmap  count  over
    ds2                1        60 s       10     20  1.00
    dhalion            5      1020 s       11     23  1.13
    threshold         25      1500 s       13     26  1.30
    flink              1       900 s       16     32  1.60
"""

from pathlib import Path

from rechannel.testing.scaling import (
    Constant,
    ContinuousEngine,
    Dataflow,
    Operator,
    Source,
    Story,
    policy_named,
    simulate,
    topology,
)

SENTENCES, WORDS = 1e6 / 60, 20


def word_count() -> Dataflow[Operator]:
    """Return the dataflow. Its generator stands still while it is blocked, and never makes up for it."""
    return Dataflow(
        topology=topology([("sentences", "flatmap"), ("flatmap", "count")]),
        sources={"sentences": Source(load=Constant(rate=SENTENCES), limit=SENTENCES, keeps=False)},
        operators={
            "flatmap": Operator(rate=1e5 / 60, selectivity={"count": WORDS}),
            "count": Operator(rate=1e6 / 60),
        },
    )


def line(name: str, story: Story) -> str:
    """Return a line of the table."""
    last = story.changes[-1]
    over = story.cores[-1] / story.oracle.cores[-1]
    numbers = f"{last.after['flatmap']:>7}  {last.after['count']:>5}"
    return f"{name:<9} {len(story.changes):>10}  {last.at_s:>8.0f} s  {numbers}  {over:.2f}"


def main(_folder: Path) -> None:
    """Run the policies one after another."""
    print("policy     decisions  last after  flatmap  count  over")
    for name in ("ds2", "dhalion", "threshold", "flink"):
        print(
            line(name, simulate(ContinuousEngine(word_count()), policy_named(name), until_s=7200))
        )


if __name__ == "__main__":
    main(Path())
