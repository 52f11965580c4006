"""Run xllamacpp as if it were llama-server: the same flags, exit statuses and signals.

This script is started by the Python of an engine environment, never imported: it may use the standard library
and xllamacpp, nothing else. Tried with xllamacpp 2026.10.11549.

1. Flags are llama-server's own. One that is not in the tables below ends it with llama-server's words: no
   profile runs with an argument silently left out.
2. The port opens before the weights are read and answers 503 until they are, as llama-server's does.
3. SIGTERM while loading ends it by the signal; afterwards with status 0, at once: streams are cut, and no
   request in flight is waited for (llama-server can hang on one for ever).
4. Failures end it with status 1, behind the engine's own words on standard error.
"""

import os
import signal
import socket
import sys

FLASH = {"on": "ENABLED", "off": "DISABLED", "auto": "AUTO"}
LOAD = {
    "auto": "AUTO",
    "none": "NONE",
    "mmap": "MMAP",
    "mlock": "MLOCK",
    "mmap+mlock": "MMAP_MLOCK",
    "dio": "DIRECT_IO",
}
CACHE = {
    name: name.upper() for name in ("f32", "f16", "bf16", "q8_0", "q4_0", "q4_1", "iq4_nl", "q5_0", "q5_1")
}
NUMA = {"distribute": "DISTRIBUTE", "isolate": "ISOLATE", "numactl": "NUMACTL"}
POOLING = {name: name.upper() for name in ("none", "mean", "cls", "last", "rank")}
REASONING = {"none": "NONE", "auto": "AUTO", "deepseek": "DEEPSEEK", "deepseek-legacy": "DEEPSEEK_LEGACY"}
ROPE = {name: name.upper() for name in ("none", "linear", "yarn")}
SPLIT = {name: name.upper() for name in ("none", "layer", "row", "tensor")}

ENUMS = {
    "-fa --flash-attn": ("flash_attn_type", "llama_flash_attn_type", "LLAMA_FLASH_ATTN_TYPE_", FLASH),
    "-lm --load-mode": ("load_mode", "llama_load_mode", "LLAMA_LOAD_MODE_", LOAD),
    "-ctk --cache-type-k": ("cache_type_k", "ggml_type", "GGML_TYPE_", CACHE),
    "-ctv --cache-type-v": ("cache_type_v", "ggml_type", "GGML_TYPE_", CACHE),
    "--numa": ("numa", "ggml_numa_strategy", "GGML_NUMA_STRATEGY_", NUMA),
    "--pooling": ("pooling_type", "llama_pooling_type", "LLAMA_POOLING_TYPE_", POOLING),
    "--reasoning-format": (
        "reasoning_format",
        "common_reasoning_format",
        "COMMON_REASONING_FORMAT_",
        REASONING,
    ),
    "--rope-scaling": ("rope_scaling_type", "llama_rope_scaling_type", "LLAMA_ROPE_SCALING_TYPE_", ROPE),
    "-sm --split-mode": ("split_mode", "llama_split_mode", "LLAMA_SPLIT_MODE_", SPLIT),
}
"""Flags that take one of a few words: field, enumeration, beginning of its members, and the rest by word."""


def words(text):
    """Split a list as llama-server writes it, at commas."""
    return [word for word in text.split(",") if word]


def positive(text):
    """Read a number of slots: -1 lets the engine choose."""
    number = int(text)
    if number == 0 or number < -1:
        raise ValueError(text)
    return number


def layers(text):
    """Read how many layers go to GPUs: a number, auto or all."""
    return {"auto": -1, "all": -2}.get(text) or int(text)


def switch(text):
    """Read on or off."""
    return {"on": True, "off": False}[text]


def contents(path):
    """Read a file."""
    with open(path, encoding="utf-8") as file:
        return file.read()


VALUES = {
    "-m --model": (str, "model.path"),
    "-a --alias": (lambda text: set(words(text)), "model_alias"),
    "--tags": (lambda text: set(words(text)), "model_tags"),
    "--host": (words, "hostnames"),
    "--port": (int, "port"),
    "-c --ctx-size": (int, "n_ctx"),
    "-np --parallel": (positive, "n_parallel"),
    "-b --batch-size": (int, "n_batch"),
    "-ub --ubatch-size": (int, "n_ubatch"),
    "-n --predict --n-predict": (int, "n_predict"),
    "--keep": (int, "n_keep"),
    "-t --threads": (int, "cpuparams.n_threads"),
    "-tb --threads-batch": (int, "cpuparams_batch.n_threads"),
    "--threads-http": (int, "n_threads_http"),
    "-ngl --gpu-layers --n-gpu-layers": (layers, "n_gpu_layers"),
    "-mg --main-gpu": (int, "main_gpu"),
    "-mm --mmproj": (str, "mmproj.path"),
    "-fit --fit": (switch, "fit_params"),
    "-fitc --fit-ctx": (int, "fit_params_min_ctx"),
    "-cram --cache-ram": (int, "cache_ram_mib"),
    "--cache-reuse": (int, "n_cache_reuse"),
    "-ctxcp --ctx-checkpoints --swa-checkpoints": (int, "n_ctx_checkpoints"),
    "--kv-unified-per-slot": (int, "kv_unified_per_slot"),
    "-sps --slot-prompt-similarity": (float, "slot_prompt_similarity"),
    "--embd-normalize": (int, "embd_normalize"),
    "--chat-template": (str, "chat_template"),
    "--chat-template-file": (contents, "chat_template"),
    "--sse-ping-interval": (int, "sse_ping_interval"),
    "--sleep-idle-seconds": (int, "sleep_idle_seconds"),
    "-lv --verbosity --log-verbosity": (int, "verbosity"),
    "--rope-freq-base": (float, "rope_freq_base"),
    "--rope-freq-scale": (float, "rope_freq_scale"),
    "--yarn-orig-ctx": (int, "yarn_orig_ctx"),
    "-s --seed": (lambda text: int(text) % 2**32, "sampling.seed"),
    "--temp --temperature": (float, "sampling.temp"),
    "--top-k": (int, "sampling.top_k"),
    "--top-p": (float, "sampling.top_p"),
    "--min-p": (float, "sampling.min_p"),
    "--repeat-last-n": (int, "sampling.penalty_last_n"),
    "--repeat-penalty": (float, "sampling.penalty_repeat"),
    "--presence-penalty": (float, "sampling.penalty_present"),
    "--frequency-penalty": (float, "sampling.penalty_freq"),
}
"""Flags that take a value: how it is read, and the field it is written to."""

SWITCHES = {
    "--embedding --embeddings": ("embedding", True),
    "--metrics": ("endpoint_metrics", True),
    "--props": ("endpoint_props", True),
    "--slots": ("endpoint_slots", True),
    "--no-slots": ("endpoint_slots", False),
    "--ui --webui": ("ui", True),
    "--no-ui --no-webui": ("ui", False),
    "--jinja": ("use_jinja", True),
    "--no-jinja": ("use_jinja", False),
    "--warmup": ("warmup", True),
    "--no-warmup": ("warmup", False),
    "-kvu --kv-unified": ("kv_unified", True),
    "-no-kvu --no-kv-unified": ("kv_unified", False),
    "-nkvo --no-kv-offload": ("no_kv_offload", True),
    "-cb --cont-batching": ("cont_batching", True),
    "-nocb --no-cont-batching": ("cont_batching", False),
    "--context-shift": ("ctx_shift", True),
    "--no-context-shift": ("ctx_shift", False),
    "--cache-prompt": ("cache_prompt", True),
    "--no-cache-prompt": ("cache_prompt", False),
    "--cache-idle-slots": ("cache_idle_slots", True),
    "--no-cache-idle-slots": ("cache_idle_slots", False),
    "--prefill-assistant": ("prefill_assistant", True),
    "--no-prefill-assistant": ("prefill_assistant", False),
    "--swa-full": ("swa_full", True),
    "--check-tensors": ("check_tensors", True),
    "--no-mmproj --no-mmproj-auto": ("no_mmproj", True),
    "--no-perf": ("no_perf", True),
    "--offline": ("offline", True),
}
"""Flags without a value: the field and what it becomes."""


class BadArgument(Exception):
    """An argument that cannot be taken; the message is what llama-server would say."""


def by_name(table):
    """Index a table by each single spelling of a flag."""
    return {name: row for names, row in table.items() for name in names.split()}


def write(params, field, value):
    """Set a field of the parameters; `sampling.temp` names one of a part."""
    *parts, last = field.split(".")
    for part in parts:
        params = getattr(params, part)
    setattr(params, last, value)


def member(xllamacpp, enumeration, beginning, rest):
    """Find a member of one of xllamacpp's enumerations."""
    return getattr(getattr(xllamacpp, enumeration), beginning + rest)


def take(xllamacpp, params, flag, value):
    """Apply a flag that takes `value`."""
    if flag in ("-dev", "--device"):
        # The binding offers no choice of devices; to use none is what a profile without GPUs needs.
        if value != "none":
            raise ValueError("only none can be chosen here; use the CUDA_VISIBLE_DEVICES variable")
        params.n_gpu_layers = 0
    elif flag in ("-to", "--timeout"):
        params.timeout_read = params.timeout_write = int(value)
    elif flag in (enums := by_name(ENUMS)):
        field, enumeration, beginning, by_word = enums[flag]
        write(params, field, member(xllamacpp, enumeration, beginning, by_word[value]))
    else:
        read, field = by_name(VALUES)[flag]
        write(params, field, read(value))


def read_arguments(xllamacpp, arguments):
    """Make the engine's parameters from llama-server's flags.

    Raises:
        BadArgument: a flag is not known, or its value is missing or cannot be read.
    """
    params = xllamacpp.CommonParams()
    # llama-server's own defaults where those of the bare parameters differ.
    params.port = 8080
    params.n_parallel = -1
    switches, valued = (
        by_name(SWITCHES),
        {*by_name(VALUES), *by_name(ENUMS), "-dev", "--device", "-to", "--timeout"},
    )
    rest = iter(arguments)
    for given in rest:
        flag = given.replace("_", "-") if given.startswith("--") else given
        if flag in switches:
            write(params, *switches[flag])
        elif flag in ("--rerank", "--reranking"):
            params.embedding = True
            params.pooling_type = member(xllamacpp, "llama_pooling_type", "LLAMA_POOLING_TYPE_", "RANK")
        elif flag in valued:
            value = next(rest, None)
            if value is None:
                raise BadArgument(f'error while handling argument "{flag}": expected value for argument')
            try:
                take(xllamacpp, params, flag, value)
            except (ValueError, KeyError, OverflowError, OSError) as error:
                said = "invalid value" if isinstance(error, KeyError) else error
                raise BadArgument(f'error while handling argument "{flag}": {said}') from error
        else:
            raise BadArgument(f"error: invalid argument: {flag}")
    return params


def say(text):
    """Write a line where llama-server writes its own."""
    print(text, file=sys.stderr, flush=True)


def wait_for_end():
    """Return when SIGTERM or SIGINT arrives.

    The signal may be delivered to any of the engine's threads, and only this one runs Python: the wake-up
    socket reaches it in every case.
    """
    ours, theirs = socket.socketpair()
    theirs.setblocking(False)
    signal.set_wakeup_fd(theirs.fileno())
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: None)
    ours.recv(1)


def main(arguments):
    """Serve until told to end; returns the exit status of a failure or of --version."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    try:
        import xllamacpp
    except ImportError as error:
        say(f"error: {sys.executable} cannot import xllamacpp: {error}")
        return 1
    if "--version" in arguments:
        build = xllamacpp.__version__.rpartition(".")[2]
        say(f"version: xllamacpp {xllamacpp.__version__} (build {build}, commit unknown)")
        return 0
    try:
        params = read_arguments(xllamacpp, arguments)
        if not params.model.path:
            raise BadArgument("error: --model is required: this launcher serves one model")
    except BadArgument as error:
        say(error)
        return 1
    try:
        # Kept in a variable: the engine ends when the object is collected.
        server = xllamacpp.Server(params)  # noqa: F841
    except (RuntimeError, ValueError):
        # The engine has said why, line by line; its exception says less.
        return 1
    wait_for_end()
    say("ending: told to by a signal")
    # Not by way of the engine's destructor, which waits for requests in flight.
    os._exit(0)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
