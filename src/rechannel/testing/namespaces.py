"""A cluster of hosts between which there is a network that can fail: one network namespace per host, on Linux, as root.

Hosts of `loopback` die loudly: the kernel closes their connections, and Spark learns of it at once. A host that loses
power, or the line to it, says nothing. Here hosts have addresses on a bridge of their own, which leads nowhere else;
the driver's program and the master run outside, at the address that ends in 1.

    with namespaces(place, hosts=2) as cluster:
        spark = rc.session(cluster.url, recovery="fast", **cluster.settings)
        cluster.lose_power(cluster.hosts[0])
"""

from __future__ import annotations

import contextlib
import itertools
import os
import shutil
import signal
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from rechannel.errors import SetUpError
from rechannel.testing.loopback import PATIENCE_S, Host, Loopback

_NOWHERE = "02:00:00:00:00:fe"
"""A hardware address that no host has: what is sent there is lost in silence."""

_REMOVE = 'cat >/dev/null; for name in "$@"; do ip netns delete "$name"; done'
"""Removes network namespaces when its standard input closes, thus also when the process that started it is killed."""


_made = itertools.count()
"""Networks of this process: each has names and addresses of its own."""


def ip(*arguments: str) -> str:
    """Run `ip`. Raises SetUpError with what it says."""
    return _run("ip", *arguments)


def _run(*command: str) -> str:
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        msg = f"`{' '.join(command)}` failed: {done.stderr.strip()}"
        raise SetUpError(msg)
    return done.stdout


@dataclass(kw_only=True)
class Network:
    """Hosts on a bridge. Made by `network`."""

    prefix: str
    """The first three bytes of all addresses."""
    name: str
    """What the names of its namespaces begin with."""
    _namespaces: dict[str, str] = field(default_factory=dict)

    @property
    def driver(self) -> str:
        """Address of the driver's host, which is no namespace."""
        return f"{self.prefix}.1"

    @property
    def hosts(self) -> tuple[str, ...]:
        """Addresses of the others."""
        return tuple(self._namespaces)

    @property
    def names(self) -> list[str]:
        """Names of namespaces, that of the bridge last."""
        return [*self._namespaces.values(), self.name]

    def there(self, address: str) -> list[str]:
        """Return what a command begins with that runs on a host."""
        name = self._namespaces.get(address)
        return [] if name is None else ["ip", "netns", "exec", name]

    def make(self, hosts: int) -> None:
        """Make the bridge, and hosts on it."""
        ip("netns", "add", self.name)
        ip("-n", self.name, "link", "add", "bridge", "type", "bridge")
        for link in ("lo", "bridge"):
            ip("-n", self.name, "link", "set", link, "up")
        self._plug_in("1", None)
        for number in range(2, hosts + 2):
            host = f"{self.name}-{number}"
            ip("netns", "add", host)
            self._namespaces[f"{self.prefix}.{number}"] = host
            ip("-n", host, "link", "set", "lo", "up")
            self._plug_in(str(number), host)

    def _plug_in(self, number: str, host: str | None) -> None:
        """Lay a line from a host to the bridge. host: its namespace, None = this one."""
        at = [] if host is None else ["-n", host]
        line = self._line(number) if host is None else "eth0"
        end = ["netns", host] if host is not None else []
        port = ["peer", "name", f"port{number}", "netns", self.name]
        ip("link", "add", line, *end, "type", "veth", *port)
        ip("-n", self.name, "link", "set", f"port{number}", "master", "bridge", "up")
        ip(*at, "address", "add", f"{self.prefix}.{number}/24", "dev", line)
        ip(*at, "link", "set", line, "up")

    def _line(self, number: str) -> str:
        return f"{self.name}-{number}"

    def cut(self, one: str, other: str) -> None:
        """Lose everything between two hosts, in silence; what is under way is sent again after `heal`."""
        for here, there in ((one, other), (other, one)):
            self._neighbour("replace", here, there, "lladdr", _NOWHERE, "nud", "permanent")

    def heal(self, one: str, other: str) -> None:
        """End `cut`."""
        for here, there in ((one, other), (other, one)):
            self._neighbour("delete", here, there)

    def _neighbour(self, do: str, here: str, there: str, *more: str) -> None:
        host = self._namespaces.get(here)
        at, line = ([], self._line("1")) if host is None else (["-n", host], "eth0")
        ip(*at, "neighbour", do, there, *more, "dev", line)

    def unplug(self, address: str) -> None:
        """Take a host off the network."""
        ip("-n", self.name, "link", "set", f"port{address.rpartition('.')[2]}", "down")

    def plug_in(self, address: str) -> None:
        """End `unplug`."""
        ip("-n", self.name, "link", "set", f"port{address.rpartition('.')[2]}", "up")

    def limit(self, address: str, megabits: float) -> None:
        """Give a host's line a bandwidth, per second and direction."""
        shape = ["root", "tbf", "rate", f"{megabits:g}mbit", "burst", "512kb", "latency", "50ms"]
        host, port = self._namespaces[address], f"port{address.rpartition('.')[2]}"
        for name, line in ((host, "eth0"), (self.name, port)):
            _run("tc", "-n", name, "qdisc", "replace", "dev", line, *shape)

    def processes(self, address: str) -> list[int]:
        """Return the ids of the processes that run on a host."""
        return [int(each) for each in ip("netns", "pids", self._namespaces[address]).split()]

    def end_processes(self, address: str) -> None:
        """Kill (SIGKILL) what runs on a host."""
        for process in self.processes(address):
            with contextlib.suppress(ProcessLookupError):
                os.kill(process, signal.SIGKILL)


@contextmanager
def network(hosts: int) -> Iterator[Network]:
    """Return a network as long as the context lasts, and not longer than this process, whatever ends it.

    Raises SetUpError without Linux, root, or the commands `ip` and `tc`.
    """
    lacking = [name for name in ("ip", "tc") if shutil.which(name) is None]
    if lacking or os.geteuid() != 0:
        msg = (
            "network namespaces need root, and the commands `ip` and `tc` (package iproute2):"
            f" {'no ' + lacking[0] if lacking else 'this process is not root'}"
        )
        raise SetUpError(msg)
    number = next(_made)
    high, low = divmod((os.getpid() + 1_009 * number) % 62_500, 250)
    made = Network(prefix=f"10.{high}.{low}", name=f"rc{os.getpid()}-{number}")
    names = [f"{made.name}-{host}" for host in range(2, hosts + 2)]
    command = ["sh", "-c", _REMOVE, "remove", *names, made.name]
    quiet = subprocess.DEVNULL
    remove = subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=quiet, stderr=quiet, start_new_session=True
    )
    try:
        made.make(hosts)
        yield made
    finally:
        try:
            for address in made.hosts:
                made.end_processes(address)
        finally:
            remove.communicate(timeout=PATIENCE_S)


class Namespaces(Loopback):
    """A running cluster on a network. Made by `namespaces`."""

    def __init__(
        self,
        place: Path,
        environment: Mapping[str, str],
        network: Network,
        processors: Mapping[str, Sequence[int]] | None = None,
    ) -> None:
        """Start the master on the driver's host. processors: those that a host's processes run on, by address."""
        self.network = network
        self._processors = processors or {}
        super().__init__(place, environment, network.driver)

    def _there(self, address: str) -> list[str]:
        own = ",".join(map(str, self._processors.get(address, ())))
        return [*self.network.there(address), *(["taskset", "--cpu-list", own] if own else [])]

    def lose_power(self, address: str) -> None:
        """A host is gone at once: none of its connections is closed."""
        self.network.unplug(address)
        self.network.end_processes(address)
        self.kill(address)

    def come_back(self, host: Host) -> None:
        """A host that lost power has it again, and starts its worker."""
        self.network.plug_in(host.address)
        self.add(host)


def shared_out(
    hosts: Sequence[str], cores: int, processors: Sequence[int]
) -> dict[str, tuple[int, ...]]:
    """Return the processors of each host: the next ones, and from the first on again where there are too few."""
    many = len(processors)
    return {
        host: tuple(sorted({processors[(at * cores + core) % many] for core in range(cores)}))
        for at, host in enumerate(hosts)
    }


@contextmanager
def namespaces(
    place: Path,
    hosts: int,
    *,
    cores: int = 1,
    memory_mb: int = 1024,
    environment: Mapping[str, str] | None = None,
    apart: bool = False,
) -> Iterator[Namespaces]:
    """Return a cluster of equal hosts as long as the context lasts; not longer than this process, whatever ends it.

    place: a directory for logs and work. environment: of all daemons, beside this process's own. apart: each host has
    processors of its own, as many as cores, so that what one does slows no other down; where this machine has too few,
    hosts share them.
    Raises SetUpError where there are no network namespaces.
    """
    with network(hosts) as made:
        processors = shared_out(made.hosts, cores, sorted(os.sched_getaffinity(0)))
        cluster = Namespaces(place, environment or {}, made, processors if apart else None)
        try:
            cluster.add(
                *(Host(address=each, cores=cores, memory_mb=memory_mb) for each in made.hosts)
            )
            yield cluster
        finally:
            cluster.stop()
