"""Flink's own virtual environment."""

from __future__ import annotations

import hashlib
import os
import urllib.request
from dataclasses import dataclass
from pathlib import Path

from benchmarks.peers.environments import beside, installed, python_of

ENVIRONMENT = beside("flink")
MAVEN = "https://repo1.maven.org/maven2"
DOWNLOAD_SECONDS = 300


@dataclass(frozen=True, slots=True)
class Archive:
    """A Java archive of Flink's that does not come with it."""

    name: str
    version: str
    sha256: str


PARQUET = Archive(
    "flink-sql-parquet",
    "2.3.0",
    "f30617f4a5a6d437750f155ff72178ab34439aec91df64d96621c260559ba5fd",
)
CONNECTOR = Archive(
    "flink-sql-connector-kafka",
    "5.0.0-2.2",
    "5605c691d11a501382c383fecba37a7a552467da5ab7ba904ef5d6f3d62c5616",
)
"""The latest one for Kafka; it works with Flink 2.3 too."""


def home(version: str) -> Path:
    """Where Flink's ``bin`` and ``lib`` are; installs ``apache-flink==version`` (half a gigabyte) if need be."""
    installed(ENVIRONMENT, f"apache-flink=={version}")
    (found,) = ENVIRONMENT.glob("lib/python*/site-packages/pyflink")
    return found


def python() -> Path:
    """Its interpreter."""
    return python_of(ENVIRONMENT)


def archive(wanted: Archive) -> Path:
    """An archive from Maven Central or ``MAVEN_REPOSITORY``, kept in the environment; `home` has been called before.

    Raises ValueError for an archive with other content.
    """
    path = ENVIRONMENT / f"{wanted.name}-{wanted.version}.jar"
    if not path.exists():
        root = os.environ.get("MAVEN_REPOSITORY") or MAVEN
        address = f"{root}/org/apache/flink/{wanted.name}/{wanted.version}/{path.name}"
        with urllib.request.urlopen(address, timeout=DOWNLOAD_SECONDS) as answer:
            content = answer.read()
        if hashlib.sha256(content).hexdigest() != wanted.sha256:
            raise ValueError(f"{address} is not the archive that is known here")
        path.write_bytes(content)
    return path
