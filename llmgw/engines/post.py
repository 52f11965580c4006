"""Where an engine process runs, what of its node is its own, and the environment that tells it so."""

import re

import msgspec

from llmgw.core.errors import BadInput
from llmgw.core.fleet.catalog import Profile
from llmgw.core.fleet.shards import Gang

# Without GPUs asked for, none may be touched: placement counts on their memory, and a full GPU makes even a
# start without offloading fail.
NO_GPU = {"CUDA_VISIBLE_DEVICES": "", "HIP_VISIBLE_DEVICES": ""}
CHOOSES_GPUS = (
    "CUDA_VISIBLE_DEVICES",
    "HIP_VISIBLE_DEVICES",
    "ROCR_VISIBLE_DEVICES",
    "NVIDIA_VISIBLE_DEVICES",
)
"""Variables that choose GPUs, for any of the engines."""
CHOOSES_RANKS = (
    *("MASTER_ADDR", "MASTER_PORT", "RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE", "NODE_RANK"),
    *("GROUP_RANK", "ROLE_RANK", "TORCHELASTIC_*"),
)
"""Variables that tell a process of torch its place among others."""

_AMD = re.compile(r"GPU-[0-9a-f]{16}\Z")


class Post(msgspec.Struct, frozen=True, kw_only=True):
    """What a process has of its node, and its place among the ranks of its replica.

    Attributes:
        gpus: uuids of the GPUs that are its own; empty when it has none, or the server does not say.
        gpu_share: of each one's memory, 0 to 1, that it was promised; None when it has them whole.
        rank: 0 serves HTTP.
        gang: what it knows of the other ranks; None when it is the only one.
        interface: network interface that has its address; None when none was found.
    """

    gpus: tuple[str, ...] = ()
    gpu_share: float | None = None
    rank: int = 0
    gang: Gang | None = None
    interface: str | None = None

    @property
    def follows(self) -> bool:
        """Tell a rank that serves no HTTP."""
        return self.rank > 0


ALONE = Post()
"""The only process of its replica, on a node that was asked for no GPU."""


def device_variables(profile: Profile, post: Post) -> dict[str, str]:
    """Show the process its own GPUs and no others.

    Raises:
        BadInput: a GPU can be shown to no process, having no number of its own.
    """
    if profile.gpus == 0:
        return NO_GPU
    if not post.gpus:
        return {}
    # NVIDIA's and AMD's are told apart by their numbers: 32 digits in five groups, or 16 without any.
    amd = [uuid for uuid in post.gpus if _AMD.match(uuid)]
    nameless = [uuid for uuid in post.gpus if not uuid.startswith(("GPU-", "MIG-"))]
    if nameless or (amd and len(amd) < len(post.gpus)):
        raise BadInput(
            f"no engine can be given the GPUs {', '.join(post.gpus)} together: all must be of one maker and have a "
            "number of their own"
        )
    return {"ROCR_VISIBLE_DEVICES" if amd else "CUDA_VISIBLE_DEVICES": ",".join(post.gpus)}


def mesh_variables(post: Post) -> dict[str, str]:
    """Say to NCCL and Gloo which network the ranks share; a profile may say otherwise."""
    if post.gang is None:
        return {}
    found: dict[str, str] = {}
    if post.interface is not None:
        # NCCL takes a name for the beginning of one unless it is told; Gloo knows no such sign.
        found["NCCL_SOCKET_IFNAME"] = f"={post.interface}"
        found["GLOO_SOCKET_IFNAME"] = found["TP_SOCKET_IFNAME"] = post.interface
    adapters = post.gang.adapters[post.rank] if post.rank < len(post.gang.adapters) else ""
    if adapters:
        found["NCCL_IB_HCA"] = f"={adapters}"
    else:
        # Whether adapters that nobody named reach each other is not known, and NCCL would wait for it for ever.
        found["NCCL_IB_DISABLE"] = "1"
    return found


def joined(address: str, port: int) -> str:
    """Write an address with its port."""
    return f"[{address}]:{port}" if ":" in address else f"{address}:{port}"


def is_named(name: str, rules: tuple[str, ...]) -> bool:
    """Tell whether a variable is one of `rules`; one with a final * is the beginning of a name."""
    return any(name.startswith(rule[:-1]) if rule.endswith("*") else name == rule for rule in rules)


def variable_problem(profile: Profile, rules: tuple[str, ...]) -> str | None:
    """Say which variable of a profile acts behind its flags, or chooses GPUs that placement chooses."""
    for name in profile.env:
        if is_named(name, (*rules, *CHOOSES_RANKS)):
            return f"variable {name!r} is refused: it acts behind the flags; write the flag into `args`"
        if profile.gpus and name in CHOOSES_GPUS:
            return f"variable {name!r} is refused: placement chooses the GPUs; set `gpus` and `gpu_class`"
    return None
