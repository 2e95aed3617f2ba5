"""HDFS on loopback: a name node and a data node, the real daemons."""

from __future__ import annotations

import json
import subprocess
import urllib.request
from contextlib import suppress
from pathlib import Path

from tests.real.components.hadoop import LOGGING, READY_S, Daemons, command, write_properties
from tests.real.components.kafka import free_port

NAMES = "org.apache.hadoop.hdfs.server.namenode.NameNode"
DATA = "org.apache.hadoop.hdfs.server.datanode.DataNode"


class Hdfs:
    """A file system. Its files outlive a kill. `conf` has the settings of its daemons."""

    def __init__(self, folder: Path, **settings: str) -> None:
        """folder: for settings, blocks and logs. settings: of `hdfs-site.xml`, with "__" for a dot."""
        self.conf = folder / "conf"
        self._folder, self._daemons = folder, Daemons(folder)
        self.port, self._web = free_port(), free_port()
        self._more = {name.replace("__", "."): value for name, value in settings.items()}

    def url(self, folder: str = "") -> str:
        """Return the address of a folder."""
        return f"hdfs://127.0.0.1:{self.port}/{folder}".rstrip("/")

    def environment(self) -> dict[str, str]:
        """Return what clients are who they are by. Its address is in the URL."""
        return {"HADOOP_USER_NAME": "tests"}

    def start(self) -> None:
        """Start it, the first time with no files, and wait until it takes writes."""
        if not self.conf.exists():
            self._write_settings()
            done = subprocess.run(
                [*command(NAMES, self.conf), "-format", "-nonInteractive"],
                capture_output=True,
                text=True,
                timeout=READY_S,
                check=False,
            )
            if done.returncode:
                raise RuntimeError(f"the name node cannot be formatted:\n{done.stderr[-3_000:]}")
        self._daemons.run("namenode", NAMES, self.conf)
        self._daemons.run("datanode", DATA, self.conf)
        self._daemons.until(self._takes_writes, "a data node is registered, and safe mode is over")

    def kill(self) -> None:
        """Take both daemons away, as a loss of power does."""
        for name in ("namenode", "datanode"):
            self._daemons.kill(name)

    def vanish(self) -> None:
        """Take it away in the middle of its requests."""
        self.kill()

    def close(self) -> None:
        """End the daemons for good."""
        self.kill()

    def _write_settings(self) -> None:
        self.conf.mkdir(parents=True)
        place = self._folder
        (self.conf / "log4j.properties").write_text(LOGGING)
        write_properties(
            self.conf / "core-site.xml",
            {"fs.defaultFS": self.url(), "hadoop.tmp.dir": f"{place}/tmp"},
        )
        write_properties(self.conf / "hdfs-site.xml", {
            "dfs.replication": "1",
            "dfs.namenode.name.dir": f"{place}/names",
            "dfs.datanode.data.dir": f"{place}/blocks",
            "dfs.permissions.enabled": "false",
            "dfs.namenode.http-address": f"127.0.0.1:{self._web}",
            "dfs.datanode.address": f"127.0.0.1:{free_port()}",
            "dfs.datanode.http.address": f"127.0.0.1:{free_port()}",
            "dfs.datanode.ipc.address": f"127.0.0.1:{free_port()}",
            "dfs.namenode.safemode.extension": "0",
            **self._more,
        })  # fmt: skip

    def _takes_writes(self) -> bool:
        with suppress(OSError, ValueError, KeyError, IndexError):
            beans = f"http://127.0.0.1:{self._web}/jmx?qry=Hadoop:service=NameNode,name="
            with urllib.request.urlopen(f"{beans}FSNamesystemState", timeout=5) as answer:
                state = json.load(answer)["beans"][0]
            return bool(state["NumLiveDataNodes"] == 1 and state["FSState"] == "Operational")
        return False
