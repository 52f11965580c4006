"""SGLang's flags, as far as llmgw must know them: which a profile must not give, and what others make of it.

Facts were read from SGLang 0.5.23 (`sglang serve`).
"""

from llmgw.core.fleet.catalog import Profile
from llmgw.engines.flags import last_number, last_share

DEFAULT_REQUESTS = 64
"""Requests at once when nobody says how many; the engine makes it out of the memory that it finds."""
BESIDE_STATIC = 0.1
"""Of each GPU's memory, what graphs and activations take beside the static share."""

TENSOR = ("--tp-size", "--tensor-parallel-size")
PIPELINE = ("--pp-size", "--pipeline-parallel-size")
DATA = ("--dp-size", "--data-parallel-size")
SHARE = ("--mem-fraction-static",)
REQUESTS = ("--max-running-requests",)
VECTORS = ("--is-embedding",)

_ADDRESS = "the agent chooses where the engine listens; leave it out"
_WEIGHTS = "the profile's `weights` say what is loaded; leave it out"
_EXITS = "the engine would print something and end; leave it out"
_KEY = "the router has no key for it and would be refused; leave it out"
_RANKS = (
    "the profile's `nodes` say how many nodes it spans, and the agent tells each rank its place; leave it out"
)
_GPUS = "placement chooses the GPUs; set `gpus` and `gpu_class`"
_OPENS = "it would let clients reach files or programs of the node; leave it out"
_BEHIND = "flags in a file are looked at by nobody; write them into `args`"
_SHORT = "a beginning of several flags, on which the engine may end; write --{}-size"

REFUSED = {
    **dict.fromkeys(("--host", "--port", "--fastapi-root-path"), _ADDRESS),
    **dict.fromkeys(("--ssl-keyfile", "--ssl-certfile", "--ssl-ca-certs"), _ADDRESS),
    **dict.fromkeys(("--model-path", "--model", "--download-dir", "--revision"), _WEIGHTS),
    "--served-model-name": "the model's `name` is what the engine answers to; add `aliases` to the model",
    **dict.fromkeys(("--api-key", "--admin-api-key"), _KEY),
    "--config": _BEHIND,
    **dict.fromkeys(("--nnodes", "--node-rank", "--dist-init-addr", "--nccl-init-addr", "--use-ray"), _RANKS),
    **dict.fromkeys(("--base-gpu-id", "--gpu-id-step"), _GPUS),
    "--tool-server": _OPENS,
    **{f"--{name}": _SHORT.format(name) for name in ("tp", "pp", "dp")},
    **dict.fromkeys(("-h", "--help", "--version"), _EXITS),
}
"""Flags that would break supervision, open a hole or end this version, with the reason."""


def world(profile: Profile) -> tuple[int, int]:
    """Say over how many ways a profile cuts the model's tensors, and into how many stages its layers.

    By default tensors are cut over all GPUs of all nodes, as SGLang's own examples do.
    """
    there = max(1, profile.gpus) * profile.nodes
    tensor, pipeline = last_number(profile.args, TENSOR), last_number(profile.args, PIPELINE)
    stages = pipeline or 1
    return (tensor if tensor else max(1, there // stages // (last_number(profile.args, DATA) or 1)), stages)


def world_problem(profile: Profile) -> str | None:
    """Say why the parts that a profile makes of the model do not go onto its nodes and GPUs."""
    data = last_number(profile.args, DATA) or 1
    if profile.nodes > 1 and data > 1:
        remedy = "write --attn-dp-size, or raise `replicas`"
        return f"--dp-size {data} works on one node only, and `nodes` is {profile.nodes}; {remedy}"
    tensor, pipeline = world(profile)
    parts = tensor * pipeline
    if parts % profile.nodes:
        return (
            f"its arguments make {parts} parts of the model, which {profile.nodes} nodes cannot share evenly"
        )
    each = parts // profile.nodes
    if profile.gpus and each * data > profile.gpus:
        found = f"its arguments make {each * data} parts for each node"
        return f"{found}, and it has {profile.gpus} GPUs there; set `gpus: {each * data}`"
    return None


def share(profile: Profile) -> float | None:
    """Say which share of its GPUs' memory it takes in all; None when it takes what it finds."""
    static = last_share(profile.args, SHARE)
    return None if static is None else min(1.0, static + BESIDE_STATIC)
