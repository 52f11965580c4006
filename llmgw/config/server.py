"""The server's configuration: each key with its default and a sentence."""

from typing import Self

import msgspec

from llmgw.config.addresses import address_problems, is_loopback
from llmgw.core.errors import Problem
from llmgw.core.shape import Size, Time, read_struct
from llmgw.core.units import MIB, show_bytes

DEFAULT_PATH = "/etc/llmgw/server.yaml"


class Listen(msgspec.Struct, frozen=True, kw_only=True):
    """Where the server listens, as host:port; port 0 lets the kernel choose.

    Attributes:
        client: what clients talk to: /v1, and /api/v1 with an admin key.
        admin: the admin API without login.
        agents: where agents connect to.
        admin_without_login: `admin` may be an address that others reach, though it asks nobody for a key.
        insecure_plaintext: `agents` may be an address that others reach, though nothing is encrypted there.
    """

    client: str = "127.0.0.1:8080"
    admin: str = "127.0.0.1:8081"
    agents: str = "127.0.0.1:8443"
    admin_without_login: bool = False
    insecure_plaintext: bool = False


class Nodes(msgspec.Struct, frozen=True, kw_only=True):
    """When a silent node counts as what, and what a replica's end waits for; seconds.

    Attributes:
        heartbeat: how often an agent gives a sign of life.
        unreachable_after: silence after which a node is unreachable.
        lost_after: time unreachable after which what ran there is placed elsewhere.
        start_grace: how long a starting server waits for the nodes it knows before it places anything.
        drain_deadline: how long a replica that is to end may finish the requests that it has.
    """

    heartbeat: Time = 5.0
    unreachable_after: Time = 15.0
    lost_after: Time = 60.0
    start_grace: Time = 20.0
    drain_deadline: Time = 60.0


class RouterSettings(msgspec.Struct, frozen=True, kw_only=True):
    """How requests are routed.

    Attributes:
        max_body: the largest request body that is taken, bytes.
    """

    max_body: Size = 64 * MIB


class ServerConfig(msgspec.Struct, frozen=True, kw_only=True):
    """All of server.yaml.

    Attributes:
        data_dir: the folder of the database.
        listen: where the server listens.
        catalog: a catalog file that is applied at every start; None leaves it to `llmgw ctl apply`.
        nodes: when a silent node counts as what, and what a replica's end waits for.
        router: how requests are routed.
    """

    data_dir: str = "/var/lib/llmgw"
    listen: Listen = Listen()
    catalog: str | None = None
    nodes: Nodes = Nodes()
    router: RouterSettings = RouterSettings()

    @classmethod
    def read(cls, data: dict[str, object]) -> tuple[Self | None, list[Problem]]:
        """Read and check what server.yaml says."""
        config, problems = read_struct(data, cls)
        if config is None:
            return None, problems
        problems = [
            *_empty_paths(config),
            *_listen_problems(config.listen),
            *_node_problems(config.nodes),
            *_router_problems(config.router),
        ]
        return (None, problems) if problems else (config, [])


def _empty_paths(config: ServerConfig) -> list[Problem]:
    return [
        Problem((key,), "wanted a path, found an empty text")
        for key in ("data_dir", "catalog")
        if getattr(config, key) == ""
    ]


def _listen_problems(listen: Listen) -> list[Problem]:
    addresses: dict[tuple[str | int, ...], str] = {
        ("listen", key): getattr(listen, key) for key in ("client", "admin", "agents")
    }
    problems = address_problems(addresses, any_port=True)
    if problems:
        return problems
    for key, allowed, consequence in (
        ("admin", "admin_without_login", "whoever reaches it may do everything, without a key"),
        ("agents", "insecure_plaintext", "nothing is encrypted there and any machine may join"),
    ):
        address = getattr(listen, key)
        if not is_loopback(address) and not getattr(listen, allowed):
            message = f"{address} is not loopback, and {consequence}; keep 127.0.0.1, or set {allowed}: true"
            problems.append(Problem(("listen", key), message))
    seen: dict[str, str] = {}
    for path, address in addresses.items():
        if address in seen and not address.endswith(":0"):
            problems.append(
                Problem(path, f"{address} is taken by listen.{seen[address]}; choose another port")
            )
        seen.setdefault(address, str(path[-1]))
    return problems


def _node_problems(nodes: Nodes) -> list[Problem]:
    problems = []
    for key in ("heartbeat", "unreachable_after", "lost_after"):
        if getattr(nodes, key) < 0.05:
            problems.append(Problem(("nodes", key), f"wanted at least 50ms, found {getattr(nodes, key):g}s"))
    if not problems and nodes.unreachable_after <= nodes.heartbeat:
        wanted = f"wanted more than the heartbeat of {nodes.heartbeat:g}s (three of them are usual)"
        problems.append(
            Problem(("nodes", "unreachable_after"), f"{wanted}, found {nodes.unreachable_after:g}s")
        )
    return problems


def _router_problems(router: RouterSettings) -> list[Problem]:
    if router.max_body < 1024:
        found = show_bytes(router.max_body)
        return [Problem(("router", "max_body"), f"wanted at least 1k, found {found}")]
    return []
