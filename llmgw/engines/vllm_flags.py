"""vLLM's flags, as far as llmgw must know them: which a profile must not give, and what others make of it.

Facts were read from vLLM 0.33.0 (`vllm serve`).
"""

from llmgw.core.fleet.catalog import Profile
from llmgw.engines.flags import has, last_number, last_share, values

DEFAULT_SHARE = 0.92
"""Of each GPU's memory; so much must be free at the start."""
DEFAULT_SEQUENCES = 256
"""Requests at once when nobody says how many."""

TENSOR = ("-tp", "--tensor-parallel-size")
PIPELINE = ("-pp", "--pipeline-parallel-size")
DATA = ("-dp", "--data-parallel-size")
SHARE = ("--gpu-memory-utilization", "--gpu-memory-utilization-gb", "--kv-cache-memory-bytes")
SEQUENCES = ("--max-num-seqs",)
LENGTH = ("--max-model-len",)
SERVERS = ("-asc", "--api-server-count")
EXECUTOR = ("--distributed-executor-backend",)
_RUNNER = ("--runner", "--convert", "--task")
_POOLING = frozenset({"pooling", "embed", "embedding", "classify", "score", "reward"})
EXECUTORS = ("mp", "ray", "uni")

_ADDRESS = "the agent chooses where the engine listens; leave it out"
_WEIGHTS = "the profile's `weights` say what is loaded; leave it out"
_OPENS = "it would let clients reach files or programs of the node; leave it out"
_EXITS = "the engine would print something and end; leave it out"
_KEY = "the router has no key for it and would be refused; leave it out"
_RANKS = (
    "the profile's `nodes` say how many nodes it spans, and the agent tells each rank its place; leave it out"
)
_BEHIND = "flags in a file are looked at by nobody; write them into `args`"

REFUSED = {
    **dict.fromkeys(("--host", "--port", "--uds", "--root-path"), _ADDRESS),
    **dict.fromkeys(
        ("--ssl-keyfile", "--ssl-certfile", "--ssl-ca-certs", "--ssl-cert-reqs", "--enable-ssl-refresh"),
        _ADDRESS,
    ),
    **dict.fromkeys(("--model", "--download-dir", "--revision", "--code-revision"), _WEIGHTS),
    "--served-model-name": "the model's `name` is what the engine answers to; add `aliases` to the model",
    "--api-key": _KEY,
    "--config": _BEHIND,
    **dict.fromkeys(("-n", "--nnodes", "-r", "--node-rank", "--master-addr", "--master-port"), _RANKS),
    **dict.fromkeys(("--headless", "-dpl", "--data-parallel-size-local"), _RANKS),
    **dict.fromkeys(("-dpr", "--data-parallel-start-rank", "-dpn", "--data-parallel-rank"), _RANKS),
    **dict.fromkeys(("-dpa", "--data-parallel-address", "-dpp", "--data-parallel-rpc-port"), _RANKS),
    **dict.fromkeys(("-dph", "--data-parallel-hybrid-lb", "-dpe", "--data-parallel-external-lb"), _RANKS),
    "--data-parallel-multi-port-external-lb": _RANKS,
    "--grpc": "the router speaks HTTP to it; leave it out",
    "--device-ids": "placement chooses the GPUs; set `gpus` and `gpu_class`",
    **dict.fromkeys(("--allowed-local-media-path", "--tool-server"), _OPENS),
    "--disable-log-stats": "its metrics tell how busy it is; leave it out",
    **dict.fromkeys(("-h", "--help", "-v", "--version"), _EXITS),
    "--disable-log-requests": "vLLM no longer has it, and logs requests only when told to; leave it out",
    "--swap-space": "vLLM no longer has it; leave it out",
}
"""Flags that would break supervision, open a hole or end this version, with the reason."""

FINE = frozenset({"--device", "--data-parallel-size"})
"""Flags of their own that are beginnings of refused ones."""


def world(profile: Profile) -> tuple[int, int]:
    """Say over how many ways a profile cuts the model's tensors, and into how many stages its layers.

    Where its arguments do not say, tensors are cut over the GPUs of one node, and layers over the nodes: between nodes
    a stage sends least.
    """
    there = max(1, profile.gpus) * profile.nodes // (last_number(profile.args, DATA) or 1)
    tensor, pipeline = last_number(profile.args, TENSOR), last_number(profile.args, PIPELINE)
    if pipeline is None:
        pipeline = profile.nodes if tensor is None or profile.nodes == 1 else max(1, there // tensor)
    return (tensor or max(1, there // pipeline), pipeline)


def world_problem(profile: Profile) -> str | None:
    """Say why the parts that a profile makes of the model do not go onto its GPUs."""
    data = last_number(profile.args, DATA) or 1
    if profile.nodes > 1 and data > 1:
        return (
            f"--data-parallel-size {data} over {profile.nodes} nodes is not started by llmgw; set `nodes: 1` and raise "
            "`replicas`, which does the same"
        )
    if profile.nodes > 1 and has(profile.args, SERVERS):
        return "--api-server-count ends every rank but the first; leave it out, or set `nodes: 1`"
    tensor, pipeline = world(profile)
    parts, there = tensor * pipeline * data, max(1, profile.gpus) * profile.nodes
    if profile.nodes > 1 and parts != there:
        found = f"tensor-parallel-size {tensor} times pipeline-parallel-size {pipeline} makes {parts} parts"
        return f"{found}, and {profile.nodes} nodes with {max(1, profile.gpus)} GPUs each have {there}; make them equal"
    if profile.gpus and parts > there:
        return f"its arguments make {parts} parts of the model, and it has {there} GPUs; set `gpus: {parts}`"
    return None


def executor(profile: Profile) -> str | None:
    """Tell which way to run processes a profile asks for; None when it leaves it open."""
    given = list(values(profile.args, EXECUTOR))
    return given[-1] if given else None


def is_pooling(profile: Profile) -> bool:
    """Tell whether a profile makes vectors or scores, and no text."""
    return any(value in _POOLING for value in values(profile.args, _RUNNER))


def share(profile: Profile) -> float | None:
    """Say which share of its GPUs' memory it takes; None when its arguments say it in another way."""
    given = last_share(profile.args, ("--gpu-memory-utilization",))
    if given is not None:
        return given
    return None if has(profile.args, SHARE) else DEFAULT_SHARE
