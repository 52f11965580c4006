"""A network of this machine's own: one namespace a member, a bridge between them, and a wire each that can be cut.

A cut takes a wire off the bridge: its ends stay up, and what is sent goes nowhere, as behind a switch that failed. This
machine is on the bridge too, so that whoever made it can ask any member. Closing removes all of it.
"""

import ipaddress
import json
import os
import secrets
import subprocess
import sys
from typing import Any, Self

# Kept for benchmarks of networks (RFC 2544): nobody routes it.
NETWORK = ipaddress.ip_network("198.18.0.0/15")

FETCH = "import sys, urllib.request as r; sys.stdout.buffer.write(r.urlopen(sys.argv[1], timeout=5).read())"


class NoNamespaces(Exception):
    """This user may not make network namespaces."""


class Network:
    """Namespaces with these members; the first address is this machine's, then one each in their order.

    Raises:
        NoNamespaces: this user may not make them.
    """

    def __init__(self, *members: str) -> None:
        if os.geteuid() != 0:
            raise NoNamespaces("network namespaces need root")
        self._id = f"lg{secrets.token_hex(2)}"
        subnet = ipaddress.ip_network((int(NETWORK.network_address) + (secrets.randbelow(512) << 8), 24))
        self._own, *addresses = (str(subnet[i]) for i in range(1, len(members) + 2))
        self.address = dict(zip(members, addresses, strict=True))

    def __enter__(self) -> Self:
        try:
            self._lay()
        except BaseException:
            self.close()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def inside(self, member: str) -> tuple[str, ...]:
        """Give the words that go before a command that is to run in the namespace of a member."""
        return ("nsenter", f"--net=/run/netns/{self._name(member)}", "--")

    def cut(self, member: str) -> None:
        """Cut the wire of a member."""
        _ip("link", "set", self._wire(member), "nomaster")

    def heal(self, member: str) -> None:
        """Put the wire of a member back."""
        _ip("link", "set", self._wire(member), "master", self._bridge)

    def fetch(self, member: str, url: str) -> Any:
        """Get JSON from within the namespace of a member; None when nothing answers."""
        done = subprocess.run(
            [*self.inside(member), sys.executable, "-I", "-S", "-c", FETCH, url],
            capture_output=True,
            timeout=15,
            check=False,
        )
        return json.loads(done.stdout) if done.returncode == 0 else None

    def close(self) -> None:
        """Remove every namespace, wire and the bridge; what is not there is fine."""
        for member in self.address:
            _ip("link", "del", self._wire(member), check=False)
            _ip("netns", "del", self._name(member), check=False)
        _ip("link", "del", self._bridge, check=False)

    @property
    def _bridge(self) -> str:
        return f"{self._id}-br"

    def _name(self, member: str) -> str:
        return f"{self._id}-{member}"

    def _wire(self, member: str) -> str:
        return f"{self._id}-{list(self.address).index(member)}"

    def _lay(self) -> None:
        _ip("link", "add", self._bridge, "type", "bridge")
        _ip("addr", "add", f"{self._own}/24", "dev", self._bridge)
        _ip("link", "set", self._bridge, "up")
        for member, address in self.address.items():
            name, wire = self._name(member), self._wire(member)
            _ip("netns", "add", name)
            _ip("link", "add", wire, "type", "veth", "peer", "name", "eth0", "netns", name)
            _ip("-n", name, "addr", "add", f"{address}/24", "dev", "eth0")
            _ip("-n", name, "link", "set", "lo", "up")
            _ip("-n", name, "link", "set", "eth0", "up")
            _ip("link", "set", wire, "master", self._bridge, "up")


def _ip(*words: str, check: bool = True) -> None:
    done = subprocess.run(["ip", *words], capture_output=True, text=True, timeout=30, check=False)
    if check and done.returncode != 0:
        raise OSError(f"ip {' '.join(words)}: {done.stderr.strip()}")
