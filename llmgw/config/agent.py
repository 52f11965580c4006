"""The agent's configuration: each key with its default and a sentence."""

import re
from typing import Self

import msgspec

from llmgw.config.addresses import address_problems, host_problem, is_loopback
from llmgw.core.errors import Problem
from llmgw.core.fleet.weights import WebFile, read_source
from llmgw.core.ids import name_problem
from llmgw.core.shape import nearest, read_struct
from llmgw.engines.registry import KNOWN

_ADAPTER = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]*(:\d+)?")
ANY_FABRIC = "any"
DEFAULT_PATH = "/etc/llmgw/agent.yaml"


class WeightsConfig(msgspec.Struct, frozen=True, kw_only=True):
    """Where weights are, and where they come from.

    Attributes:
        cache: the folder that what is fetched goes to; None takes `weights` in state_dir.
        also_look_in: folders with weights of one's own, which are reported and used, and never written to.
        hub: the hub, or a mirror of it.
        token_file: a file that holds what opens gated repositories of the hub; HF_TOKEN in the environment goes before.
    """

    cache: str | None = None
    also_look_in: tuple[str, ...] = ()
    hub: str = "https://huggingface.co"
    token_file: str | None = None


class AgentConfig(msgspec.Struct, frozen=True, kw_only=True):
    """All of agent.yaml.

    Attributes:
        server: where the server listens for agents, host:port; several are routes to the one active server.
        node: what this node is called; None takes the host name.
        address: where the router reaches engines here; None takes the source of the route to the server.
        state_dir: the folder of records, logs and sockets of engines.
        engines: programs that are engines, by engine name, beside what is found installed.
        pool: which group of nodes this one belongs to.
        labels: what profiles may select nodes by.
        weights: where weights are, and where they come from.
        fabrics: the adapter through which this node is on a fast network, by the network's name.
        insecure_plaintext: `server` may be another machine, though nothing is encrypted on the way.
    """

    server: tuple[str, ...] = ("127.0.0.1:8443",)
    node: str | None = None
    address: str | None = None
    state_dir: str = "/var/lib/llmgw-agent"
    engines: dict[str, str] = {}
    pool: str = "default"
    labels: dict[str, str] = {}
    weights: WeightsConfig = WeightsConfig()
    fabrics: dict[str, str] = {}
    insecure_plaintext: bool = False

    @classmethod
    def read(cls, data: dict[str, object]) -> tuple[Self | None, list[Problem]]:
        """Read and check what agent.yaml says; `server` may be one address or a list of them."""
        if isinstance(data.get("server"), str):
            data = data | {"server": [data["server"]]}
        config, problems = read_struct(data, cls)
        if config is None:
            return None, problems
        problems = [
            *_server_problems(config),
            *_own_problems(config),
            *_engine_problems(config),
            *_fabric_problems(config),
            *_weights_problems(config.weights),
        ]
        return (None, problems) if problems else (config, [])


def _server_problems(config: AgentConfig) -> list[Problem]:
    if not config.server:
        return [Problem(("server",), "wanted at least one host:port, found none")]
    addresses: dict[tuple[str | int, ...], str] = {("server", i): a for i, a in enumerate(config.server)}
    problems = address_problems(addresses, any_port=False)
    if problems or config.insecure_plaintext:
        return problems
    return [
        Problem(
            path,
            f"{address} is another machine, and nothing is encrypted on the way to it; "
            "on a network you trust, set insecure_plaintext: true here and under listen in server.yaml",
        )
        for path, address in addresses.items()
        if not is_loopback(address)
    ]


def _own_problems(config: AgentConfig) -> list[Problem]:
    found = {
        "node": None if config.node is None else name_problem("node", config.node),
        "pool": name_problem("pool", config.pool),
        "address": None if config.address is None else host_problem(config.address, bracketed=False),
        "state_dir": None if config.state_dir else "wanted a path, found an empty text",
    }
    return [Problem((key,), wrong) for key, wrong in found.items() if wrong]


def _fabric_problems(config: AgentConfig) -> list[Problem]:
    problems = []
    for name, adapter in config.fabrics.items():
        wrong = name_problem("fabric", name)
        if name == ANY_FABRIC:
            wrong = f"a profile writes fabric: {ANY_FABRIC} for whichever there is; give this network another name"
        if wrong:
            problems.append(Problem(("fabrics", name), wrong))
        if not _ADAPTER.fullmatch(adapter):
            wanted = "wanted an adapter as /sys/class/infiniband names it, such as mlx5_0, or one port of it, mlx5_0:1"
            problems.append(Problem(("fabrics", name), f"{wanted}; found {adapter!r}"))
    return problems


def _weights_problems(weights: WeightsConfig) -> list[Problem]:
    folders = {("weights", "also_look_in", i): path for i, path in enumerate(weights.also_look_in)}
    single = {("weights", "cache"): weights.cache, ("weights", "token_file"): weights.token_file}
    problems = [
        Problem(at, f"wanted an absolute path, found {path!r}")
        for at, path in (folders | {at: path for at, path in single.items() if path is not None}).items()
        if not path.startswith("/") or "\0" in path
    ]
    hub = read_source(f"{weights.hub.rstrip('/')}/file")
    if not isinstance(hub, WebFile) or "?" in weights.hub or "#" in weights.hub:
        wanted = "wanted https:// and the address of a hub (plain http only to this machine itself)"
        problems.append(Problem(("weights", "hub"), f"{wanted}, found {weights.hub!r}"))
    return problems


def _engine_problems(config: AgentConfig) -> list[Problem]:
    problems = []
    for name, path in config.engines.items():
        if name not in KNOWN:
            message = f"no engine is called {name!r}; {nearest(name, list(KNOWN))}"
            problems.append(Problem(("engines", name), message))
        elif not path.startswith("/"):
            wanted = "wanted the absolute path of its program, such as /opt/llama/llama-server"
            problems.append(Problem(("engines", name), f"{wanted}, found {path!r}"))
    return problems
