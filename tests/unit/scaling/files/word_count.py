"""A word count on Flink as DS2 recorded it: the first epochs of the rates that it ships, in records per second."""

from __future__ import annotations

from pathlib import Path

WORD_COUNT = "Source,Source,1,FlatMap,FlatMap,2\nFlatMap,FlatMap,2,Count,Count,1\n"
SHIPPED = """\
# operator_id,instance_id,instances,timestamp,true_processing,true_output,observed_processing,observed_output
Source,1,1,115913079126211,0,119931,0,79982
FlatMap,1,2,115913079126619,94787,962970,39417,400449
FlatMap,2,2,115913079129076,92095,936020,39417,400618
Count,1,1,115913079127588,1576794,0.0,800693,0.0

Source,1,1,115923182131042,0,108194,0,79770
FlatMap,1,2,115923239307094,116090,1179744,40057,407071
FlatMap,2,2,115923239336471,113232,1150538,40077,407221
Count,1,1,115923235750401,1907734,0.0,813568,0.0
Source,1,1,115933224840707,0,104565,0,79965
FlatMap,1,2,115933243491740,119649,1216014,39999,406519
FlatMap,2,2,115933245706412,114766,1166022,40024,406644
Count,1,1,115933238347499,2037284,0.0,812570,0.0
"""


def write_word_count(place: Path) -> Path:
    """Write a directory of a topology and rates."""
    place.mkdir()
    (place / "topology.csv").write_text(WORD_COUNT, encoding="utf-8")
    (place / "rates.csv").write_text(SHIPPED, encoding="utf-8")
    return place
