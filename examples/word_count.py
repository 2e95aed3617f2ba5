"""Count words in text files on Spark, keep the counts in Parquet, and query them with SQL.

Prints:

    the 3
    stream 2
    2 timesteps
"""

import tempfile
from pathlib import Path

import rechannel as rc
from rechannel import aggregates as agg

LINES = ["the stream is the input", "a stream of rows", "the end"]


def main(folder: Path) -> None:
    """Run the job until all files are read."""
    texts = folder / "texts"
    texts.mkdir()
    for number, line in enumerate(LINES):
        (texts / f"{number}.txt").write_text(f"{line}\n")

    spark = rc.session("local[2]")
    lines = rc.read(spark).files(
        f"{texts}/*.txt", schema="value STRING", per_timestep=2, name="texts"
    )
    words = lines.flat_map(lambda row: [(word,) for word in row.value.split()], "word STRING")
    counts = words.key_by("word").aggregate(n=agg.count(), name="counts")

    job = rc.Job(
        "word-count", counts.write.parquet(str(folder / "out")), state=folder / "state"
    ).start()
    job.process_all_available()
    for row in job.sql("SELECT word, n FROM counts WHERE n > 1 ORDER BY n DESC, word").collect():
        print(row.word, row.n)
    print(job.status.timestep, "timesteps")
    job.stop()


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as name:
        main(Path(name))
