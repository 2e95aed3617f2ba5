"""Flink's own virtual environment."""

from __future__ import annotations

import hashlib
import os
import urllib.request
from pathlib import Path

from benchmarks.peers.environments import beside, installed, python_of

ENVIRONMENT = beside("flink")
MAVEN = "https://repo1.maven.org/maven2"
PARQUET = "org/apache/flink/flink-sql-parquet/{version}/flink-sql-parquet-{version}.jar"
SHA256 = {"2.3.0": "f30617f4a5a6d437750f155ff72178ab34439aec91df64d96621c260559ba5fd"}
"""Of the archives with the Parquet format, by the version of Flink."""
DOWNLOAD_SECONDS = 300


def home(version: str) -> Path:
    """Where Flink's ``bin`` and ``lib`` are; installs ``apache-flink==version`` (half a gigabyte) if need be."""
    installed(ENVIRONMENT, f"apache-flink=={version}")
    (found,) = ENVIRONMENT.glob("lib/python*/site-packages/pyflink")
    return found


def python() -> Path:
    """Its interpreter."""
    return python_of(ENVIRONMENT)


def parquet_format(version: str) -> Path:
    """The archive with the Parquet format, from Maven Central or ``MAVEN_REPOSITORY``; `home` has been called before.

    Raises ValueError for an archive with other content.
    """
    archive = ENVIRONMENT / f"flink-sql-parquet-{version}.jar"
    if not archive.exists():
        root = os.environ.get("MAVEN_REPOSITORY") or MAVEN
        with urllib.request.urlopen(
            f"{root}/{PARQUET.format(version=version)}", timeout=DOWNLOAD_SECONDS
        ) as answer:
            content = answer.read()
        if hashlib.sha256(content).hexdigest() != SHA256[version]:
            raise ValueError(
                f"{root} has another flink-sql-parquet {version} than the one known here"
            )
        archive.write_bytes(content)
    return archive
