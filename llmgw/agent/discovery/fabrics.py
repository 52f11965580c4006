"""Fast networks: InfiniBand and RoCE adapters from /sys, by the names that agent.yaml gives the networks they are on.

Which network a cable leads to nobody can see from here: two that are apart may call themselves the same. So agent.yaml
says it, and only what it names is looked at.
"""

from collections.abc import Mapping
from pathlib import Path

import msgspec

from llmgw.core.fleet.hardware import Fabric

_ACTIVE = "ACTIVE"


class Port(msgspec.Struct, frozen=True, kw_only=True):
    """One port of an adapter, in the kernel's words: `state` "ACTIVE", `physical` "LinkUp", `rate` "400 Gb/sec"."""

    number: int
    state: str
    physical: str | None = None
    rate: str | None = None


def read_adapters(root: Path = Path("/")) -> dict[str, tuple[Port, ...]]:
    """Read the ports of every adapter, by its name."""
    return {path.name: _ports(path / "ports") for path in _folders(root / "sys/class/infiniband")}


def read_fabrics(named: Mapping[str, str], root: Path = Path("/")) -> tuple[Fabric, ...]:
    """Look at the adapters that are named.

    Args:
        named: adapter by network, as "mlx5_0", or "mlx5_0:1" where only that port is meant.
        root: where /sys is.
    """
    adapters = read_adapters(root) if named else {}
    return tuple(_fabric(name, adapter, adapters, root) for name, adapter in named.items())


def parse_state(text: str) -> str:
    """Read `4: ACTIVE`, as the kernel writes every state: the word."""
    return text.partition(":")[2].strip() or text.strip()


def _fabric(name: str, adapter: str, adapters: Mapping[str, tuple[Port, ...]], root: Path) -> Fabric:
    device, _, number = adapter.partition(":")
    ports = adapters.get(device)
    if ports is None:
        return Fabric(name=name, adapter=adapter, problem=_missing(device, adapters, root))
    meant = [port for port in ports if not number or str(port.number) == number]
    active = next((port for port in meant if port.state == _ACTIVE), None)
    if active is not None:
        return Fabric(name=name, adapter=adapter, attached=True, rate=active.rate)
    said = ", ".join(_port_text(port) for port in meant)
    return Fabric(
        name=name, adapter=adapter, problem=said or f"adapter {device} has no port {number or 'at all'}"
    )


def _port_text(port: Port) -> str:
    physical = f" ({port.physical})" if port.physical else ""
    return f"port {port.number} is {port.state}{physical}"


def _missing(device: str, adapters: Mapping[str, tuple[Port, ...]], root: Path) -> str:
    behind = [path.name for path in _folders(root / "sys/class/net" / device / "device/infiniband")]
    if behind:
        return f"{device} is a network interface; name its adapter, {', '.join(behind)}, under fabrics in agent.yaml"
    there = f"there are {', '.join(sorted(adapters))}" if adapters else "there is none on this machine"
    return f"there is no adapter {device}; {there}; correct fabrics in agent.yaml"


def _ports(folder: Path) -> tuple[Port, ...]:
    ports = []
    for path in _folders(folder):
        state = _read(path / "state")
        if path.name.isdecimal() and state is not None:
            physical = _read(path / "phys_state")
            ports.append(
                Port(
                    number=int(path.name),
                    state=parse_state(state),
                    physical=None if physical is None else parse_state(physical),
                    rate=_read(path / "rate"),
                )
            )
    return tuple(sorted(ports, key=lambda port: port.number))


def _folders(path: Path) -> list[Path]:
    try:
        return sorted(path.iterdir())
    except OSError:
        return []


def _read(path: Path) -> str | None:
    try:
        return path.read_text(errors="replace").strip() or None
    except OSError:
        return None
