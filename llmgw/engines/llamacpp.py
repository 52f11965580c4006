"""llama.cpp: how to start its server, and what its answers and its last words mean.

Facts were read from and tried on llama-server b11434 and xllamacpp 2026.10.11549 (which is build 11549). Both
forms take the same flags: the launcher script of the "xllamacpp" form understands llama-server's own.
"""

import re

from llmgw.core.errors import BadInput
from llmgw.core.fleet.catalog import Profile
from llmgw.core.fleet.hardware import EngineInstall
from llmgw.core.fleet.model_shape import ModelShape
from llmgw.core.fleet.shards import Gang
from llmgw.core.fleet.weights import HubRepo, read_source
from llmgw.core.placement.need import Need
from llmgw.core.routing.table import CHAT, COMPLETIONS, EMBEDDINGS
from llmgw.engines.engine import Launch, Metrics, Readiness
from llmgw.engines.gguf import pooling
from llmgw.engines.llamacpp_args import CACHE_RAM_MIB, EMBEDDING, RERANKING, flag, slots_of
from llmgw.engines.llamacpp_memory import need_of
from llmgw.engines.post import ALONE, CHOOSES_GPUS, Post, device_variables, is_named, joined

PROGRAM = "llama-server"
ENVIRONMENT = "xllamacpp"
RPC_PROGRAM = "ggml-rpc-server"
"""Lies beside llama-server in builds that have it, and computes for one on another node."""

# Every flag has a twin in the environment: an inherited LLAMA_ARG_TOOLS would open a shell to clients.
# AIP_MODE moves the port, LLAMA_SERVER_* makes the process somebody's child, and with a key of its own it would
# refuse the router.
SCRUB = ("LLAMA_ARG_*", "LLAMA_API_KEY", "LLAMA_SERVER_*", "AIP_MODE")

METRICS = Metrics(
    running="llamacpp:requests_processing",
    waiting="llamacpp:requests_deferred",
    prompt_tokens="llamacpp:prompt_tokens_total",
    cached_tokens="llamacpp:prompt_tokens_cached_total",
    generated_tokens="llamacpp:tokens_predicted_total",
)

_ADDRESS = "the agent chooses where the engine listens; leave it out"
_WEIGHTS = "the profile's `weights` say what is loaded; leave it out"
_OPENS = "it would let clients reach files or programs of the node; leave it out"
_ROUTER = "the engine would start engines of its own that nobody watches; leave it out"
_SILENCES = "the engine's output is what tells why it failed; leave it out"
_EXITS = "the engine would print something and end; leave it out"
_KEY = "the router has no key for it and would be refused; leave it out"

REFUSED = {
    **dict.fromkeys(
        ("--host", "--port", "--reuse-port", "--api-prefix", "--ssl-key-file", "--ssl-cert-file"), _ADDRESS
    ),
    **dict.fromkeys(("-m", "--model", "-mu", "--model-url", "-dr", "--docker-repo"), _WEIGHTS),
    **dict.fromkeys(("-hf", "-hfr", "--hf-repo", "-hff", "--hf-file", "-hft", "--hf-token"), _WEIGHTS),
    **dict.fromkeys(
        ("-hfd", "-hfrd", "--hf-repo-draft", "--spec-draft-hf", "-mmu", "--mmproj-url"), _WEIGHTS
    ),
    **dict.fromkeys(("--fim-qwen-7b-spec", "--fim-qwen-14b-spec"), _WEIGHTS),
    **dict.fromkeys(
        ("-a", "--alias"), "the model's `name` is what the engine answers to; add `aliases` to the model"
    ),
    **dict.fromkeys(("--tools", "--tools-runtime", "-ag", "--agent"), _OPENS),
    **dict.fromkeys(
        ("--mcp-servers-config", "--mcp-servers-json", "--ui-mcp-proxy", "--webui-mcp-proxy"), _OPENS
    ),
    **dict.fromkeys(("--path", "--media-path", "--slot-save-path", "--props"), _OPENS),
    **dict.fromkeys(("--models-dir", "--models-preset", "--models-max"), _ROUTER),
    **dict.fromkeys(("--models-autoload", "--no-models-autoload"), _ROUTER),
    **dict.fromkeys(("--api-key", "--api-key-file"), _KEY),
    **dict.fromkeys(("--log-disable", "--log-file", "--log-jsonl"), _SILENCES),
    **dict.fromkeys(("-h", "--help", "--usage", "--version", "-cl", "--cache-list"), _EXITS),
    **dict.fromkeys(("--list-devices", "--completion-bash"), _EXITS),
}
"""Flags that would break supervision or open a hole, with the reason."""

REMOVED = {
    "--mlock": "--load-mode mlock",
    "--mmap": "--load-mode mmap",
    "--no-mmap": "--load-mode none",
    "--direct-io": "--load-mode dio",
    "-dio": "--load-mode dio",
    "--no-direct-io": "--load-mode auto",
    "-ndio": "--load-mode auto",
    **dict.fromkeys(("--draft", "--draft-n", "--draft-max"), "--spec-draft-n-max N"),
    **dict.fromkeys(("--draft-min", "--draft-n-min"), "--spec-draft-n-min N"),
    "--spec-ngram-size-n": "--spec-ngram-simple-size-n N",
    "--spec-ngram-size-m": "--spec-ngram-simple-size-m N",
    "--spec-ngram-min-hits": "--spec-ngram-simple-min-hits N",
}
"""Flags of earlier builds on which this one exits, with what replaced them."""

# A line is looked for in this order, so that the cause wins over the engine's summaries of it.
_CAUSES = tuple(
    re.compile(pattern)
    for pattern in (
        r"error: invalid argument|error while handling argument|cannot import xllamacpp",
        r"error while loading shared libraries|version `\w+_[\d.]+' not found|no CPU backend found",
        r"couldn't bind HTTP server socket",
        r"failed to open GGUF file|invalid magic characters|not within the file bounds",
        r"failed to read (?:magic|header|key-value|tensor)",
        r"invalid split|failed to load GGUF split|corrupted model|unknown model architecture",
        r"out of memory|insufficient memory|ErrorOutOfDeviceMemory|failed to allocate \S+ ?buffer|CUDA error",
        r"GGML_ASSERT|Illegal instruction|is not ready to be used",
        r"error loading model:|failed to initialize the context|failed to create.context",
        r"exiting due to",
    )
)
# The step that fits parameters to memory repeats each load error once; it never is the cause.
_ECHO = re.compile(r"common_fit_params: encountered an error")
_STAMP = re.compile(r"^\d+\.\d\d\.\d{3}\.\d{3} [IWEDT] ")


class LlamaCpp:
    """The adapter for both forms of llama.cpp: the program, and xllamacpp in a Python environment."""

    name = "llama.cpp"
    takes_folders = False
    metrics = METRICS

    def __init__(self, launcher: str) -> None:
        """Take the path of the script that an environment's Python runs for the "xllamacpp" form."""
        self._launcher = launcher

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
        """Say how to start it for a profile; the profile's own arguments come last, so that they win.

        Raises:
            BadInput: the install is of a form that this adapter does not know, or cannot do what the post asks.
        """
        if post.gang is not None and install.form != PROGRAM:
            raise BadInput(
                f"the {install.form} form of llama.cpp runs on one node only; name a llama-server with {RPC_PROGRAM} "
                "beside it under `engines` in agent.yaml, or set `nodes: 1`"
            )
        if post.gang is not None and post.follows:
            return _rpc_server(install, profile, post.gang, post)
        argv = [
            *self._start(install),
            "--model",
            weights,
            "--alias",
            model,
            "--host",
            host,
            "--port",
            str(port),
        ]
        if profile.context is not None:
            argv += ["--ctx-size", str(profile.context)]
        if profile.parallel is not None:
            argv += ["--parallel", str(profile.parallel)]
        if post.gang is not None:
            others = zip(post.gang.addresses[1:], post.gang.ports[1:], strict=True)
            argv += ["--rpc", ",".join(joined(address, number) for address, number in others)]
        elif profile.gpus == 0:
            argv += ["--device", "none"]
        # A model made for text names no way to make one vector of many, and the engine would answer each request
        # for embeddings with 400. A model made for vectors names its own, which must not be overruled.
        if any(flag(given) in EMBEDDING for given in profile.args) and pooling(head) is None:
            argv += ["--pooling", "mean"]
        # Its page is not ours to show. An idle stream sees SIGTERM only at its next ping: 30 s unless told.
        # The cache of earlier prompts would grow to 8 GiB that no placement has counted.
        argv += ["--metrics", "--no-ui", "--sse-ping-interval", "2", "--cache-ram", str(CACHE_RAM_MIB)]
        # Python reads the environment's .pth files in this locale, and its path need not be ASCII.
        locale = {"LC_ALL": "C.UTF-8"} if install.form == ENVIRONMENT else {}
        env = {**locale, **device_variables(profile, post), **profile.env}
        return Launch(argv=(*argv, *profile.args), env=env, scrub=SCRUB)

    def _start(self, install: EngineInstall) -> tuple[str, ...]:
        if install.form == PROGRAM:
            return (install.path,)
        if install.form == ENVIRONMENT:
            # Isolated: no variable and no folder of whoever started the agent changes what is imported.
            return (install.path, "-I", self._launcher)
        raise BadInput(f"llama.cpp has no form {install.form!r}; known: {PROGRAM}, {ENVIRONMENT}")

    def profile_problem(self, profile: Profile) -> str | None:
        """Say what of the profile llama.cpp must not get, and what to write instead."""
        if isinstance(read_source(profile.weights), HubRepo):
            # Said before a whole repository is fetched, of which it would load one file.
            return f"llama.cpp loads one GGUF file: name it, as in {profile.weights}/model-q4_k_m.gguf"
        for given in profile.args:
            if "\0" in given:
                return f"argument {given!r} holds a NUL byte, which no program can be given; remove it"
            problem = _flag_problem(flag(given))
            if profile.nodes > 1 and flag(given) == "--rpc":
                problem = "the profile's `nodes` say how many nodes it spans; leave it out"
            if problem:
                return f"argument {given!r} is refused: {problem}"
        for name in profile.env:
            if is_named(name, SCRUB):
                return f"variable {name!r} is refused: it acts behind the flags; write the flag into `args`"
            if profile.gpus and name in CHOOSES_GPUS:
                return f"variable {name!r} is refused: placement chooses the GPUs; set `gpus` and `gpu_class`"
        return None

    def readiness(self, status: int | None, body: bytes) -> Readiness:
        """Read the answer to GET /health: the port opens before loading, and 503 is its answer until then."""
        if status is None or status == 503:
            return Readiness.LOADING
        return Readiness.READY if status == 200 else Readiness.BROKEN

    def tasks(self, profile: Profile) -> tuple[str, ...]:
        """List what it answers: embeddings when started for them, chat and completions otherwise."""
        if any(flag(given) in EMBEDDING | RERANKING for given in profile.args):
            return (EMBEDDINGS,)
        return (CHAT, COMPLETIONS)

    def capacity(self, profile: Profile) -> int:
        """Say how many requests it serves at once: as arguments say, else the profile, else the engine."""
        return slots_of(profile)

    def need(self, profile: Profile, shape: ModelShape | None, weights_bytes: int | None) -> Need:
        """Reckon the memory it needs when started so."""
        return need_of(profile, shape, weights_bytes)

    def failure_cause(self, lines: tuple[str, ...]) -> str | None:
        """Find the line that says why it failed, without its time stamp; None when no line says."""
        said = [_STAMP.sub("", line).strip() for line in lines if not _ECHO.search(line)]
        for cause in _CAUSES:
            for line in said:
                if cause.search(line):
                    return line
        return None


def _flag_problem(flag: str) -> str | None:
    if flag in REMOVED:
        return f"llama.cpp no longer has it; write {REMOVED[flag]}"
    # Presets such as --gpt-oss-20b-default name a model and fetch it.
    if flag.startswith("--") and flag.endswith("-default") and flag != "--spec-default":
        return _WEIGHTS
    return REFUSED.get(flag)


def _rpc_server(install: EngineInstall, profile: Profile, gang: Gang, post: Post) -> Launch:
    """Start the program that lends this node's devices to rank 0; it keeps no weights and knows no model.

    Nobody is asked who they are: whoever reaches its port may use it, so its network must be a private one.
    """
    folder, slash, _ = install.path.rpartition("/")
    address, port = gang.addresses[post.rank], gang.ports[post.rank]
    return Launch(
        argv=(f"{folder}{slash}{RPC_PROGRAM}", "--host", address, "--port", str(port)),
        env=device_variables(profile, post) | profile.env,
        scrub=SCRUB,
        health_path="",
    )
