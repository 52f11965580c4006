"""What is looked at before an engine is launched: the profile, the engine, the weights, a port.

Every refusal is a sentence in the node's words; nothing has been started when one is returned.
"""

import stat
from pathlib import Path

import msgspec

from llmgw.agent.discovery.route import free_port
from llmgw.agent.gang import post_of
from llmgw.agent.home import Home
from llmgw.agent.patience import call_within
from llmgw.agent.weights import is_snapshot
from llmgw.core.errors import BadInput
from llmgw.core.fleet.hardware import EngineInstall
from llmgw.core.fleet.shards import ShardSpec
from llmgw.core.fleet.weights import parts_of
from llmgw.engines.engine import Engine, Launch

STAT_LIMIT_S = 10.0
HEAD_BYTES = 1024**2
"""How much of a weights file an adapter gets to see."""


class _Weights(msgspec.Struct, frozen=True):
    """Weights that can be read: the bytes of all files, about, and the first of a file; empty for a folder."""

    size: int
    head: bytes


class Plan(msgspec.Struct, frozen=True, kw_only=True):
    """A launch that has been looked at.

    Attributes:
        weights: where they are on this node; None of an engine that was launched by an earlier agent.
        weights_bytes: of all their files.
    """

    engine: Engine
    launch: Launch
    host: str
    port: int
    limit_s: float
    version: str | None = None
    weights: Path | None = None
    weights_bytes: int = 0


def obstacle(spec: ShardSpec, home: Home) -> str | None:
    """Say why the engine cannot run the profile on this node, whatever its weights are; None when it can."""
    profile = spec.profile
    install = _usable(profile.engine, home.installs(), home.node)
    if isinstance(install, str):
        return install
    engine = home.engines.get(profile.engine)
    if engine is None:
        return f"the agent on node {home.node} knows no engine {profile.engine!r}; update it"
    return engine.profile_problem(profile)


async def look(spec: ShardSpec, home: Home, weights_path: Path) -> Plan | str:
    """Look at all that is needed for a launch.

    Args:
        weights_path: where the weights are on this node.

    Returns:
        The launch, its port added to the ports of `home`; or what is wrong.
    """
    profile, node = spec.profile, home.node
    engine = home.engines.get(profile.engine)
    install = _usable(profile.engine, home.installs(), node)
    if isinstance(install, str):
        return install
    if engine is None:
        return f"the agent on node {node} knows no engine {profile.engine!r}; update it"
    if problem := engine.profile_problem(profile):
        return problem
    weights = await _weights(str(weights_path), node, engine)
    if isinstance(weights, str):
        return weights
    post = await post_of(spec, home)
    if isinstance(post, str):
        return post
    host = home.address()
    port = await _port(host, home)
    if isinstance(port, str):
        return port
    try:
        launch = engine.launch(
            install,
            profile,
            model=spec.model,
            weights=str(weights_path),
            host=host,
            port=port,
            head=weights.head,
            post=post,
        )
    except BadInput as error:
        home.ports.discard(port)
        return str(error)
    limit_s = home.timings.starting_limit_s(weights.size)
    return Plan(
        engine=engine,
        launch=launch,
        weights=weights_path,
        weights_bytes=weights.size,
        host=host,
        port=port,
        limit_s=limit_s,
        version=install.version,
    )


async def _port(host: str, home: Home) -> int | str:
    taken = home.ports
    try:
        port = await call_within(STAT_LIMIT_S, lambda: free_port(host, taken))
        while port in taken:
            port = await call_within(STAT_LIMIT_S, lambda: free_port(host, taken))
    except (OSError, ValueError) as error:
        return (
            f"no engine can listen on {host}, the address of node {home.node}: {words(error)}; "
            "correct `address` in its agent.yaml"
        )
    taken.add(port)
    return port


def _usable(engine: str, installs: tuple[EngineInstall, ...], node: str) -> EngineInstall | str:
    of_name = [install for install in installs if install.engine == engine]
    for install in of_name:
        if install.problem is None:
            return install
    if of_name:
        return f"engine {engine!r} does not run on node {node}: {of_name[0].problem}"
    return f"engine {engine!r} is not on node {node}; name it under `engines` in its agent.yaml"


async def _weights(path: str, node: str, engine: Engine) -> _Weights | str:
    """Look at weights, a file or a folder; returns what is wrong with them when they cannot be used."""
    try:
        found = await call_within(STAT_LIMIT_S, lambda: _read(Path(path)))
    except IsADirectoryError:
        return await _folder(path, node, engine)
    except (FileNotFoundError, NotADirectoryError):
        return f"weights file {path} is not on node {node}"
    except TimeoutError:
        return f"weights file {path}: its filesystem on node {node} did not answer within {STAT_LIMIT_S:g} s"
    except (OSError, ValueError) as error:
        return f"weights file {path} cannot be read on node {node}: {words(error)}"
    return f"weights file {path} on node {node} {found}" if isinstance(found, str) else found


async def _folder(path: str, node: str, engine: Engine) -> _Weights | str:
    if not engine.takes_folders:
        return (
            f"weights {path} on node {node} are a folder, and {engine.name} loads a file; name the file in it"
        )
    try:
        size = await call_within(STAT_LIMIT_S, lambda: _folder_bytes(Path(path)))
    except TimeoutError:
        return (
            f"weights folder {path}: its filesystem on node {node} did not answer within {STAT_LIMIT_S:g} s"
        )
    except OSError as error:
        return f"weights folder {path} cannot be read on node {node}: {words(error)}"
    if size is None:
        return f"weights folder {path} on node {node} is not whole: wanted config.json and all files of its weights"
    return _Weights(size, b"")


def _folder_bytes(path: Path) -> int | None:
    """Add up the files of a model's folder; None when it holds no whole model."""
    if not is_snapshot(path):
        return None
    return sum(entry.stat().st_size for entry in path.iterdir() if entry.is_file())


def _read(path: Path) -> _Weights | str:
    """Read the head of a file and the sizes of all its parts; returns what is wrong with it, to follow its name."""
    mode = path.stat().st_mode
    if not stat.S_ISREG(mode) and not stat.S_ISDIR(mode):
        # Opening a pipe would wait for whoever writes to it, for ever.
        return "is a pipe, a socket or a device, wanted a file"
    with path.open("rb") as file:
        head = file.read(HEAD_BYTES)
    parts = [path.with_name(part) for part in parts_of(path.name)]
    if missing := [part.name for part in parts if not part.is_file()]:
        more = f" and {len(missing) - 3} more" if len(missing) > 3 else ""
        return f"is the first of {len(parts)} parts; not beside it: {', '.join(missing[:3])}{more}"
    return _Weights(sum(part.stat().st_size for part in parts), head) if head else "is empty"


def words(error: Exception) -> str:
    """Say what went wrong without the number of the error."""
    return getattr(error, "strerror", None) or str(error)
