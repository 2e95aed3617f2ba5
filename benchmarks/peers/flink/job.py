"""The keyed count as a Flink job, in SQL: ``python job.py PARAMETERS OUT`` in Flink's own environment.

PARAMETERS is a JSON object; the id of the job that was submitted is written to OUT. Python only
submits: every operator runs in the JVM. Nothing of this repository can be imported here.
"""

# mypy: disable-error-code="import-not-found"
from __future__ import annotations

import json
import sys
import zipfile
from pathlib import Path
from typing import Any

from pyflink.common import Configuration, Types, WatermarkStrategy
from pyflink.datastream import StreamExecutionEnvironment
from pyflink.datastream.connectors.number_seq import NumberSequenceSource
from pyflink.java_gateway import get_gateway
from pyflink.table import StreamTableEnvironment

FUNCTIONS = ("Due", "Scatter", "Seen")
LAST_ROW = 1 << 60

QUERY = """
INSERT INTO discarded
SELECT k, n, Seen(last_row, {every}, '{samples}')
FROM (
  SELECT k, COUNT(*) AS n, MAX(number) AS last_row
  FROM (SELECT Scatter(f0, {keys}) AS k, Due(f0, {since_ms}, {rate}) AS number FROM numbers)
  GROUP BY k
)
"""
SINK = "CREATE TEMPORARY TABLE discarded (k BIGINT, n BIGINT, last_row BIGINT) WITH ('connector' = 'blackhole')"


def main(parameters: dict[str, Any], out: Path) -> None:
    """Compile the functions, submit the job."""
    jar = compiled(Path(__file__).with_name("Functions.java"), out.parent)
    settings = Configuration()
    for name, value in parameters["settings"].items():
        settings.set_string(name, value)
    # Not `get_execution_environment`: outside `flink run` that would be a cluster of its own.
    java = get_gateway().jvm.org.apache.flink.streaming.api.environment
    environment = StreamExecutionEnvironment(
        java.StreamExecutionEnvironment(settings._j_configuration)
    )
    tables = StreamTableEnvironment.create(environment)
    # One sequence, in order, whatever the parallelism of the count.
    numbers = environment.from_source(
        NumberSequenceSource(0, LAST_ROW),
        WatermarkStrategy.no_watermarks(),
        "numbers",
        Types.LONG(),
    ).set_parallelism(1)
    tables.create_temporary_view("numbers", tables.from_data_stream(numbers))
    for name in FUNCTIONS:
        tables.execute_sql(
            f"CREATE TEMPORARY FUNCTION {name} AS 'rescale.Functions${name}' USING JAR '{jar}'"
        )
    tables.execute_sql(SINK)
    started = tables.execute_sql(QUERY.format(**parameters))
    job = str(started.get_job_client().get_job_id())
    out.write_text(job, encoding="utf-8")


def compiled(source: Path, directory: Path) -> Path:
    """A JAR with the classes of `source`."""
    gateway = get_gateway()
    classes, jar = directory / "classes", directory / "functions.jar"
    classes.mkdir()
    files = gateway.new_array(gateway.jvm.java.io.File, 1)
    files[0] = gateway.jvm.java.io.File(str(source))
    compiler = gateway.jvm.org.codehaus.janino.CompilerFactory().newCompiler()
    compiler.setDestinationDirectory(gateway.jvm.java.io.File(str(classes)), False)
    compiler.setClassPath(class_path(gateway))
    compiler.compile(files)
    with zipfile.ZipFile(jar, "w") as archive:
        for file in sorted(classes.rglob("*.class")):
            archive.write(file, file.relative_to(classes))
    return jar


def class_path(gateway: Any) -> Any:
    """Everything that this JVM was started with, as an array of files."""
    named = gateway.jvm.java.lang.System.getProperty("java.class.path").split(":")
    paths = [path for name in named for path in expanded(name)]
    files = gateway.new_array(gateway.jvm.java.io.File, len(paths))
    for number, path in enumerate(paths):
        files[number] = gateway.jvm.java.io.File(path)
    return files


def expanded(name: str) -> list[str]:
    """The archives that an entry of a class path means."""
    if name.endswith("*"):
        return [str(path) for path in Path(name[:-1]).glob("*.jar")]
    return [name] if name else []


if __name__ == "__main__":
    main(json.loads(sys.argv[1]), Path(sys.argv[2]))
