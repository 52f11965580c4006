"""vLLM: how to start it on one node or on several, and what its answers and its last words mean.

Facts were read from the source of vLLM 0.33.0; none was tried on a GPU:

- Its socket is bound early and listens only when the model is loaded, so "refused" is loading; 503 is a dead engine.
- Several nodes run the same command, each with its rank; rank 0 serves HTTP, the others are told `--headless`. They
  find each other at rank 0's address and port, whoever comes first. `--nnodes` cannot go together with Ray.
- With `--distributed-executor-backend ray` among its arguments a profile runs over Ray: rank 0 starts Ray's head, the
  others join it, and the server starts when all have joined (launchers/vllm_ray.py). Ray is no part of vLLM: it must be
  in the same environment.
- `--disable-access-log-for-endpoints` came with 0.16; an environment whose version is older or unknown does not get it.
- Children stay behind an API server that is killed: the whole session must be ended.
"""

import re

from llmgw.core.errors import BadInput
from llmgw.core.fleet.catalog import Profile
from llmgw.core.fleet.hardware import EngineInstall
from llmgw.core.fleet.model_shape import ModelShape
from llmgw.core.placement.need import Need
from llmgw.core.routing.table import CHAT, COMPLETIONS, EMBEDDINGS
from llmgw.engines import vllm_flags as flags
from llmgw.engines.engine import Launch, Metrics, Readiness
from llmgw.engines.flags import has, last_number, refusal
from llmgw.engines.post import ALONE, Post, device_variables, mesh_variables, variable_problem

FORM = "vllm"
"""How discovery calls an environment that has it."""
RAY_LAUNCHER = "vllm-ray"
"""What the agent calls the script that starts it over Ray."""

SCRUB = (
    *(
        "VLLM_*",
        "RAY_*",
        "NCCL_*",
        "GLOO_*",
        "TP_SOCKET_IFNAME",
        "CUDA_VISIBLE_DEVICES",
        "HIP_VISIBLE_DEVICES",
    ),
    *(
        "ROCR_VISIBLE_DEVICES",
        "MASTER_ADDR",
        "MASTER_PORT",
        "RANK",
        "WORLD_SIZE",
        "LOCAL_RANK",
        "LOCAL_WORLD_SIZE",
    ),
    *("NODE_RANK", "GROUP_RANK", "ROLE_RANK", "TORCHELASTIC_*"),
)
# Each acts as a flag, opens the developer's endpoints, or keeps a dead engine answering.
_BEHIND = (
    *("VLLM_PORT", "VLLM_HOST_IP", "VLLM_API_KEY", "VLLM_SERVER_DEV_MODE", "VLLM_KEEP_ALIVE_ON_ENGINE_DEATH"),
    *(
        "VLLM_RUST_FRONTEND_PATH",
        "VLLM_DP_*",
        "VLLM_PLUGINS",
        "VLLM_ALLOW_INSECURE_SERIALIZATION",
        "RAY_ADDRESS",
    ),
)

METRICS = Metrics(
    running="vllm:num_requests_running",
    waiting="vllm:num_requests_waiting",
    cache_share="vllm:kv_cache_usage_perc",
    prompt_tokens="vllm:prompt_tokens_total",
    cached_tokens="vllm:prompt_tokens_cached_total",
    generated_tokens="vllm:generation_tokens_total",
    first_token_s="vllm:time_to_first_token_seconds",
)

# What a process says before its line: who it is, and what its logger writes.
_PREFIX = re.compile(r"^(\(\w+( pid=\d+)?\) )*([A-Z]+ \d\d-\d\d \d\d:\d\d:\d\d (\[[^]]*\] )?)?")
# A line is looked for in this order, so that the cause wins over the wrappers that follow it.
_CAUSES = tuple(
    re.compile(pattern)
    for pattern in (
        r"vllm: error:|unrecognized arguments|cannot import|No module named|has no ray",
        r"NVIDIA driver on your system is too old|cannot open shared object file|No CUDA GPUs are available",
        r"Free memory on device|No available memory for the cache blocks|is larger than the available KV cache memory",
        r"CUDA out of memory|OutOfMemoryError|HIP out of memory|Cannot allocate memory|No space left on device",
        r"World size \(\d+\) is larger than|Cannot provide a placement group",
        r"collective operation timeout|NCCL error|ncclSystemError|ncclInternalError|DistNetworkError|DistStoreError",
        r"Ray's head did not|not all nodes joined Ray|Ray ended",
        r"server socket has failed to listen|[Aa]ddress already in use",
        r"GatedRepoError|RepositoryNotFoundError|LocalEntryNotFoundError|not a valid model identifier",
        r"does not recognize this architecture|are not supported for now|Unsupported|not supported",
        r"^(?!RuntimeError: Engine core initialization failed)[\w.]*(Error|Exception): \S",
        r"Engine core initialization failed|EngineDeadError",
    )
)


class Vllm:
    """The adapter for vLLM in a Python environment of its own."""

    name = "vllm"
    takes_folders = True
    metrics = METRICS

    def __init__(self, ray_launcher: str) -> None:
        """Take the path of the script that starts it over Ray."""
        self._ray_launcher = ray_launcher

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
            BadInput: the install is of a form that this adapter does not know, or its GPUs cannot be given.
        """
        if install.form != FORM:
            raise BadInput(
                f"vLLM has no form {install.form!r}; known: {FORM}, a Python environment that has it"
            )
        # Isolated: no variable and no folder of whoever started the agent changes what is imported. The script is run
        # by name, for what it imports is not the same in every version.
        python = (install.path, "-I")
        serve = (*python, f"{install.path.rpartition('/')[0]}/vllm", "serve", weights)
        argv = [*serve, "--served-model-name", model, "--host", host, "--port", str(port)]
        argv += self._options(install, profile, post)
        over_ray = post.gang is not None and flags.executor(profile) == "ray"
        if post.gang is not None and not over_ray:
            argv += _ranks(profile, post)
        argv += profile.args
        if over_ray:
            argv = [*python, self._ray_launcher, *_ray(profile, post), "--", *(() if post.follows else argv)]
        return Launch(
            argv=tuple(argv),
            env=_variables(profile, post),
            scrub=SCRUB,
            health_path="" if post.follows else "/health",
            stop_grace_s=20.0,
        )

    def _options(self, install: EngineInstall, profile: Profile, post: Post) -> list[str]:
        tensor, pipeline = flags.world(profile)
        argv = []
        for size, flag in ((tensor, flags.TENSOR), (pipeline, flags.PIPELINE)):
            if size > 1 and not has(profile.args, flag):
                argv += [flag[1], str(size)]
        if profile.context is not None:
            argv += ["--max-model-len", str(profile.context)]
        if profile.parallel is not None:
            argv += ["--max-num-seqs", str(profile.parallel)]
        if post.gpu_share is not None and not has(profile.args, flags.SHARE):
            argv += ["--gpu-memory-utilization", f"{post.gpu_share:.3f}"]
        # It is asked every second whether it is ready, and its output is kept to be read.
        if _is_at_least(install.version, (0, 16)):
            argv += ["--disable-access-log-for-endpoints", "/health,/metrics"]
        return argv

    def profile_problem(self, profile: Profile) -> str | None:
        """Say which argument or variable of the profile vLLM must not get, and what to write instead."""
        if problem := refusal(profile.args, flags.REFUSED, flags.FINE):
            return problem
        if short := next((given for given in profile.args if re.match(r"-[nr]\d", given)), None):
            return f"argument {short!r} is refused: {flags.REFUSED[short[:2]]}"
        way = flags.executor(profile)
        if way is not None and way not in flags.EXECUTORS:
            known = ", ".join(flags.EXECUTORS)
            return f"--distributed-executor-backend {way} is not started by llmgw; write one of {known}"
        return flags.world_problem(profile) or variable_problem(profile, _BEHIND)

    def readiness(self, status: int | None, body: bytes) -> Readiness:
        """Read the answer to GET /health: nothing listens while it loads, 503 says that its engine is dead."""
        if status is None:
            return Readiness.LOADING
        return Readiness.READY if status == 200 else Readiness.BROKEN

    def tasks(self, profile: Profile) -> tuple[str, ...]:
        """List what it answers: embeddings when its runner pools, chat and completions otherwise."""
        return (EMBEDDINGS,) if flags.is_pooling(profile) else (CHAT, COMPLETIONS)

    def capacity(self, profile: Profile) -> int:
        """Say how many requests it serves at once: as arguments say, else the profile, else the engine."""
        return last_number(profile.args, flags.SEQUENCES) or profile.parallel or flags.DEFAULT_SEQUENCES

    def need(self, profile: Profile, shape: ModelShape | None, weights_bytes: int | None) -> Need:
        """Say which share of its GPUs must be free: it takes that at its start, whatever the model is.

        A profile that gives `min_gpu_memory_gb` is started with the share that this is.
        """
        told = has(profile.args, flags.SHARE)
        share = None if profile.min_gpu_memory_gb is not None and not told else flags.share(profile)
        return Need(gpu_share=share if profile.gpus else None, disk_bytes=weights_bytes)

    def failure_cause(self, lines: tuple[str, ...]) -> str | None:
        """Find the line that says why it failed, without who said it and when; None when no line says."""
        said = [_PREFIX.sub("", line).strip() for line in lines]
        for cause in _CAUSES:
            for line in said:
                if cause.search(line):
                    return line
        return None


def _ranks(profile: Profile, post: Post) -> list[str]:
    assert post.gang is not None
    argv = ["--nnodes", str(len(post.gang.addresses)), "--node-rank", str(post.rank)]
    argv += ["--master-addr", post.gang.addresses[0], "--master-port", str(post.gang.port)]
    return [*argv, "--headless"] if post.follows else argv


def _ray(profile: Profile, post: Post) -> list[str]:
    assert post.gang is not None
    role = "join" if post.follows else "head"
    argv = [role, "--head", post.gang.addresses[0], "--port", str(post.gang.port)]
    argv += ["--own", post.gang.addresses[post.rank], "--nodes", str(len(post.gang.addresses))]
    return [*argv, "--gpus", str(profile.gpus)]


def _variables(profile: Profile, post: Post) -> dict[str, str]:
    # Weights are on the node before it starts, and Python reads an environment's .pth files in this locale.
    env = {"LC_ALL": "C.UTF-8", "HF_HUB_OFFLINE": "1", "VLLM_NO_USAGE_STATS": "1", "DO_NOT_TRACK": "1"}
    env |= mesh_variables(post)
    devices = device_variables(profile, post)
    env |= profile.env | devices if profile.gpus else devices | profile.env
    if post.gang is not None:
        # Otherwise it looks for the way to a public address, which may be another network, or none.
        env["VLLM_HOST_IP"] = post.gang.addresses[post.rank]
    return env


def _is_at_least(version: str | None, wanted: tuple[int, int]) -> bool:
    found = re.match(r"(\d+)\.(\d+)", version or "")
    return found is not None and (int(found[1]), int(found[2])) >= wanted
