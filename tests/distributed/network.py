"""A network of hosts on one machine: each has its own address, name and hosts file, and a link with a delay and losses.

Hosts are namespaces of the kernel, links are TUN devices, and a process carries the packets between them:
a wide-area network and its firewall. No special rights are needed where users may make namespaces: `enter_namespaces`.
"""

from __future__ import annotations

import contextlib
import ctypes
import fcntl
import heapq
import itertools
import json
import os
import random
import select
import signal
import socket
import struct
import subprocess
import sys
import tempfile
import time
from typing import Any, Sequence

_NEW_MOUNTS, _NEW_NAMES, _NEW_NETWORK = 0x00020000, 0x04000000, 0x40000000
_TUNSETIFF, _TUN_OF_BARE_PACKETS = 0x400454CA, 0x1001
_TCP, _SYN, _ACK = 6, 0x02, 0x10
_INSIDE = "FLEETMETRICS_TEST_NAMESPACES"
_libc = ctypes.CDLL(None, use_errno=True)


def enter_namespaces(module: str) -> None:
    """Start this program again where it may make networks; end it if the machine does not allow that.

    Args:
        module: of the program.
    """
    if os.environ.get(_INSIDE):
        return
    unshare = ["unshare", "--user", "--map-root-user", "--net", "--mount", "--uts"]
    if subprocess.run([*unshare, "ip", "link"], stdout=subprocess.DEVNULL).returncode:
        sys.exit("this machine lets no user make namespaces, or has no `ip`: run it as root, in a virtual machine")
    os.environ[_INSIDE] = "1"
    os.execvp(unshare[0], [*unshare, sys.executable, "-m", module, *sys.argv[1:]])


class Network:
    """Hosts and the network between them; a context manager.

    Args:
        hosts: their names; their addresses are 10.77.0.1, 10.77.0.2, ...
        delay: seconds that a packet takes from one host to another.
        loss: the share of packets that are lost.
        names: by host: further lines of its hosts file, before the others.
    """

    def __init__(
        self, hosts: Sequence[str], delay: float = 0.0, loss: float = 0.0, names: dict[str, str] | None = None
    ) -> None:
        self._hosts, self._names = list(hosts), names or {}
        self._rules: dict[str, Any] = {"delay": delay, "loss": loss, "down": [], "ports": None, "forget": False}
        self._processes: list[int] = []
        self._places: list[int] = []

    def __enter__(self) -> Network:
        self._control, control = socket.socketpair()
        links = [self._make(number) for number in range(len(self._hosts))]
        carrier = os.fork()
        if not carrier:
            self._control.close()
            _carry(links, control)
        self._processes.append(carrier)
        for descriptor in links:
            os.close(descriptor)
        control.close()
        self._order()
        return self

    def __exit__(self, *_: object) -> None:
        for process in self._processes:
            os.kill(process, signal.SIGKILL)
            os.waitpid(process, 0)
        self._control.close()

    def enter(self, host: str) -> None:
        """Move this process, of one thread, to a host for good."""
        place = self._places[self._hosts.index(host)]
        for kind in ("net", "uts", "mnt"):
            with open(f"/proc/{place}/ns/{kind}") as file:
                _must(_libc.setns(file.fileno(), 0))

    def down(self, *hosts: str) -> None:
        """From now on nothing passes to and from these hosts, and no others."""
        self._order(down=[self._hosts.index(host) for host in hosts])

    def let_in(self, ports: Sequence[int] | None) -> None:
        """From now on hosts accept new connections at these ports alone; None: at all."""
        self._order(ports=ports)

    def forget(self) -> None:
        """Drop silently whatever belongs to a connection that there is now."""
        self._order(forget=True)
        self._rules["forget"] = False

    def _order(self, **rules: Any) -> None:
        self._rules.update(rules)
        self._control.sendall(json.dumps(self._rules).encode())
        assert self._control.recv(1)

    def _make(self, number: int) -> int:
        """Start a process that keeps a host alive; return the descriptor of the host's link."""
        here, there = socket.socketpair()
        place = os.fork()
        if not place:
            try:
                _live(self._hosts, number, self._names.get(self._hosts[number], ""), there)
            finally:
                os._exit(1)
        self._processes.append(place)
        self._places.append(place)
        there.close()
        _, [link], _, _ = socket.recv_fds(here, 1, 1)
        here.close()
        return link


def _live(hosts: Sequence[str], number: int, names: str, parent: socket.socket) -> None:
    """Be a host: its name, its hosts file, its link."""
    _must(_libc.unshare(_NEW_MOUNTS | _NEW_NAMES | _NEW_NETWORK))
    socket.sethostname(hosts[number])
    lines = [names, "127.0.0.1 localhost", *(f"10.77.0.{place} {host}" for place, host in enumerate(hosts, 1))]
    with tempfile.NamedTemporaryFile("w", suffix=".hosts") as file:
        file.write("\n".join([*lines, ""]))
        file.flush()
        subprocess.run(["mount", "--bind", file.name, "/etc/hosts"], check=True)
    link = os.open("/dev/net/tun", os.O_RDWR | os.O_NONBLOCK)
    fcntl.ioctl(link, _TUNSETIFF, struct.pack("16sH22x", b"wan", _TUN_OF_BARE_PACKETS))
    for words in ("link set lo up", f"addr add 10.77.0.{number + 1}/24 dev wan", "link set wan up txqueuelen 10000"):
        subprocess.run(["ip", *words.split()], check=True)
    socket.send_fds(parent, [b"x"], [link])
    os.close(link)
    signal.pause()


def _carry(links: Sequence[int], control: socket.socket) -> None:
    """Carry packets between hosts, as the rules of the moment say, until the network ends."""
    rules: dict[str, Any] = {}
    chance, numbers = random.Random(0), itertools.count()
    flows: set[frozenset[bytes]] = set()
    ways: list[tuple[float, int, int, bytes]] = []  # when, a number, to which host, what
    while True:
        wait = max(0.0, ways[0][0] - time.monotonic()) if ways else None
        ready, _, _ = select.select([control, *links], [], [], wait)
        if control in ready:
            rules = json.loads(control.recv(1 << 16))
            if rules["forget"]:
                flows.clear()
            control.sendall(b"x")
        for source, link in enumerate(links):
            for packet in _packets(link) if link in ready else ():
                target = packet[19] - 1
                passes = 0 <= target < len(links) and not {source, target} & set(rules["down"])
                if passes and _is_let_in(packet, flows, rules["ports"]) and chance.random() >= rules["loss"]:
                    heapq.heappush(ways, (time.monotonic() + rules["delay"], next(numbers), target, packet))
        while ways and ways[0][0] <= time.monotonic():
            _, _, target, packet = heapq.heappop(ways)
            with contextlib.suppress(OSError):  # as a switch that is full
                os.write(links[target], packet)


def _packets(link: int) -> list[bytes]:
    packets = []
    for _ in range(64):
        try:
            packets.append(os.read(link, 1 << 16))
        except BlockingIOError:
            break
    return [packet for packet in packets if packet[0] >> 4 == 4]


def _is_let_in(packet: bytes, flows: set[frozenset[bytes]], ports: Sequence[int] | None) -> bool:
    """Whether a firewall that knows connections lets a packet through; it learns new connections."""
    if packet[9] != _TCP:
        return True
    start = 4 * (packet[0] & 15)
    flow = frozenset([packet[12:16] + packet[start : start + 2], packet[16:20] + packet[start + 2 : start + 4]])
    if packet[start + 13] & (_SYN | _ACK) == _SYN:
        [port] = struct.unpack_from("!H", packet, start + 2)
        if ports is None or port in ports:
            flows.add(flow)
    return flow in flows


def _must(result: int) -> None:
    if result:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
