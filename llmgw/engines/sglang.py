"""SGLang: how to start it on one node or on several, and what its answers and its last words mean.

Facts were read from the source of SGLang 0.5.23; none was tried on a GPU:

- GET /health makes a token unless a variable says otherwise; with that it is cheap and says 503 while it starts, while
  it ends and when it is not well.
- Several nodes run the same command, each with its rank, and meet at rank 0's address and port. The others serve a
  /health of their own that always says yes: nobody must ask them.
- SIGTERM to rank 0 ends it in order and tells the others, which do nothing on a SIGTERM of their own. Without rank 0
  only SIGKILL ends them.
- When one of its processes fails it ends all of them, itself included, with SIGKILL: that is no sign of the kernel's.
- It takes the beginning of a flag for the flag where only one has it; `--pp` has become two and ends it.
"""

import re

from llmgw.core.errors import BadInput
from llmgw.core.fleet.catalog import Profile
from llmgw.core.fleet.hardware import EngineInstall
from llmgw.core.fleet.model_shape import ModelShape
from llmgw.core.placement.need import Need
from llmgw.core.routing.table import CHAT, COMPLETIONS, EMBEDDINGS
from llmgw.engines import sglang_flags as flags
from llmgw.engines.engine import Launch, Metrics, Readiness
from llmgw.engines.flags import has, last_number, refusal
from llmgw.engines.post import ALONE, Post, device_variables, joined, mesh_variables, variable_problem

FORM = "sglang"
"""How discovery calls an environment that has it."""

SCRUB = (
    *("SGLANG_*", "SGL_*", "NCCL_*", "GLOO_*", "HOST_IP", "TP_SOCKET_IFNAME", "PROMETHEUS_MULTIPROC_DIR"),
    *(
        "CUDA_VISIBLE_DEVICES",
        "HIP_VISIBLE_DEVICES",
        "ROCR_VISIBLE_DEVICES",
        "MASTER_ADDR",
        "MASTER_PORT",
        "RANK",
    ),
    *(
        "WORLD_SIZE",
        "LOCAL_RANK",
        "LOCAL_WORLD_SIZE",
        "NODE_RANK",
        "GROUP_RANK",
        "ROLE_RANK",
        "TORCHELASTIC_*",
    ),
)
_BEHIND = (
    *("SGLANG_HOST_IP", "HOST_IP", "SGLANG_LOCAL_IP_NIC", "SGL_FORCE_SHUTDOWN"),
    *("SGLANG_ENABLE_HEALTH_ENDPOINT_GENERATION", "SGLANG_PORT"),
)

METRICS = Metrics(
    running="sglang:num_running_reqs",
    waiting="sglang:num_queue_reqs",
    cache_share="sglang:token_usage",
    prompt_tokens="sglang:prompt_tokens_total",
    cached_tokens="sglang:cached_tokens_total",
    generated_tokens="sglang:generation_tokens_total",
    first_token_s="sglang:time_to_first_token_seconds",
)

_PREFIX = re.compile(r"^\[\d{4}-\d\d-\d\d \d\d:\d\d:\d\d[^]]*\] ")
# A line is looked for in this order, so that the cause wins over what follows it.
_CAUSES = tuple(
    re.compile(pattern)
    for pattern in (
        r"error: (unrecognized arguments|argument|ambiguous option)|sglang: error|No module named|Please reinstall",
        r"NVIDIA driver on your system is too old|cannot open shared object file|No CUDA GPUs are available",
        r"Not enough memory|Capture cuda graph failed|CUDA out of memory|OutOfMemoryError|HIP out of memory",
        r"tp_size must be divisible|AssertionError: \S",
        r"Port is already in use|address already in use",
        r"collective operation timeout|NCCL error|ncclSystemError|ncclInternalError|DistNetworkError|DistStoreError",
        r"GatedRepoError|RepositoryNotFoundError|LocalEntryNotFoundError|not a valid model identifier",
        r"^(?!RuntimeError: Rank \d+ scheduler died)[\w.]*(Error|Exception): \S",
        r"scheduler died during initialization|Received sigquit from a child process",
    )
)


class Sglang:
    """The adapter for SGLang in a Python environment of its own."""

    name = "sglang"
    takes_folders = True
    metrics = METRICS

    def launch(
        self,
        install: EngineInstall,
        profile: Profile,
        *,
        model: str,
        weights: str,
        host: str,
        port: int,
        head: bytes = b"",
        post: Post = ALONE,
    ) -> Launch:
        """Say how to start one rank; the profile's own arguments come last, so that they win.

        Raises:
            BadInput: the install is of a form that this adapter does not know, its GPUs cannot be given, or the model
                has a name that the engine does not take.
        """
        if install.form != FORM:
            raise BadInput(
                f"SGLang has no form {install.form!r}; known: {FORM}, a Python environment that has it"
            )
        if ":" in model:
            raise BadInput(
                f"SGLang takes no model name with a colon, and this is {model!r}; rename the model"
            )
        script = f"{install.path.rpartition('/')[0]}/sglang"
        argv = [install.path, "-I", script, "serve", "--model-path", weights, "--served-model-name", model]
        argv += ["--host", host, "--port", str(port), *_options(profile, post)]
        if post.gang is not None:
            argv += ["--nnodes", str(len(post.gang.addresses)), "--node-rank", str(post.rank)]
            argv += ["--dist-init-addr", joined(post.gang.addresses[0], post.gang.port)]
        return Launch(
            argv=(*argv, *profile.args),
            env=_variables(profile, post),
            scrub=SCRUB,
            health_path="" if post.follows else "/health",
            # Another rank does nothing on SIGTERM; what rank 0 told it when it went, it has done in a moment.
            stop_grace_s=5.0 if post.follows else 20.0,
        )

    def profile_problem(self, profile: Profile) -> str | None:
        """Say which argument or variable of the profile SGLang must not get, and what to write instead."""
        return (
            refusal(profile.args, flags.REFUSED)
            or flags.world_problem(profile)
            or variable_problem(profile, _BEHIND)
        )

    def readiness(self, status: int | None, body: bytes) -> Readiness:
        """Read the answer to GET /health: 503 while it starts, and when it is not well."""
        if status is None or status == 503:
            return Readiness.LOADING
        return Readiness.READY if status == 200 else Readiness.BROKEN

    def tasks(self, profile: Profile) -> tuple[str, ...]:
        """List what it answers: embeddings when started for them, chat and completions otherwise."""
        return (EMBEDDINGS,) if has(profile.args, flags.VECTORS) else (CHAT, COMPLETIONS)

    def capacity(self, profile: Profile) -> int:
        """Say how many requests it serves at once: as arguments say, else the profile, else a usual number."""
        return last_number(profile.args, flags.REQUESTS) or profile.parallel or flags.DEFAULT_REQUESTS

    def need(self, profile: Profile, shape: ModelShape | None, weights_bytes: int | None) -> Need:
        """Say which share of its GPUs must be free; where nobody says, it takes them whole."""
        return Need(gpu_share=flags.share(profile) if profile.gpus else None, disk_bytes=weights_bytes)

    def failure_cause(self, lines: tuple[str, ...]) -> str | None:
        """Find the line that says why it failed, without its time stamp; None when no line says."""
        said = [_PREFIX.sub("", line).strip() for line in lines]
        for cause in _CAUSES:
            for line in said:
                if cause.search(line):
                    return line
        return None


def _options(profile: Profile, post: Post) -> list[str]:
    tensor, pipeline = flags.world(profile)
    argv = ["--enable-metrics"]
    for size, flag in ((tensor, flags.TENSOR), (pipeline, flags.PIPELINE)):
        if size > 1 and not has(profile.args, flag):
            argv += [flag[0], str(size)]
    if profile.context is not None:
        argv += ["--context-length", str(profile.context)]
    if profile.parallel is not None:
        argv += ["--max-running-requests", str(profile.parallel)]
    if post.gpu_share is not None and not has(profile.args, flags.SHARE):
        argv += ["--mem-fraction-static", f"{max(0.05, post.gpu_share - flags.BESIDE_STATIC):.3f}"]
    return argv


def _variables(profile: Profile, post: Post) -> dict[str, str]:
    # Weights are on the node before it starts, and Python reads an environment's .pth files in this locale.
    env = {"LC_ALL": "C.UTF-8", "HF_HUB_OFFLINE": "1", "SGLANG_ENABLE_HEALTH_ENDPOINT_GENERATION": "0"}
    # Its requests have finished, or had their time to, before it is told to end; it would wait for them without bound.
    env["SGL_FORCE_SHUTDOWN"] = "1"
    env |= mesh_variables(post)
    devices = device_variables(profile, post)
    env |= profile.env | devices if profile.gpus else devices | profile.env
    if post.gang is not None:
        env["SGLANG_HOST_IP"] = post.gang.addresses[post.rank]
    return env
