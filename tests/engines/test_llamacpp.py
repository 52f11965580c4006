import struct

import pytest
from msgspec.structs import replace

from llmgw.core.errors import BadInput
from llmgw.core.fleet.catalog import Profile
from llmgw.core.fleet.hardware import EngineInstall
from llmgw.core.fleet.shards import Gang
from llmgw.engines.engine import Launch, Readiness
from llmgw.engines.llamacpp import REFUSED, REMOVED, LlamaCpp
from llmgw.engines.post import ALONE, Post

ENGINE = LlamaCpp("/pkg/llama_server.py")
PROGRAM = EngineInstall(engine="llama.cpp", form="llama-server", path="/opt/llama-server")
PYTHON = EngineInstall(engine="llama.cpp", form="xllamacpp", path="/env/bin/python")

# The first bytes of a model made for vectors: one pair, bert.pooling_type = 2.
BERT_HEAD = struct.pack("<4sIQQQ17sII", b"GGUF", 3, 1, 1, 17, b"bert.pooling_type", 4, 2)


def profile(*args: str, **fields: object) -> Profile:
    return Profile(name="p", engine="llama.cpp", weights="file:///w.gguf", args=args, **fields)  # type: ignore[arg-type]


def launched(
    wanted: Profile, install: EngineInstall = PROGRAM, head: bytes = b"", post: Post = ALONE
) -> Launch:
    return ENGINE.launch(
        install, wanted, model="gemma", weights="/w.gguf", host="127.0.0.1", port=4001, head=head, post=post
    )


def test_the_program_gets_weights_name_address_and_what_supervision_needs() -> None:
    launch = launched(profile(context=4096, parallel=4))

    assert launch.argv == (
        *(
            "/opt/llama-server",
            "--model",
            "/w.gguf",
            "--alias",
            "gemma",
            "--host",
            "127.0.0.1",
            "--port",
            "4001",
        ),
        *("--ctx-size", "4096", "--parallel", "4", "--device", "none"),
        *("--metrics", "--no-ui", "--sse-ping-interval", "2", "--cache-ram", "512"),
    )
    assert launch.health_path == "/health"


def test_the_environment_gets_the_same_flags_behind_its_isolated_python_and_the_launcher() -> None:
    wanted = profile("-t", "2", context=4096, parallel=4)

    program, python = launched(wanted), launched(wanted, PYTHON)

    assert python.argv == ("/env/bin/python", "-I", "/pkg/llama_server.py", *program.argv[1:])
    # Python reads .pth files in its locale, and the environment's path need not be ASCII.
    assert (python.env, python.scrub) == ({"LC_ALL": "C.UTF-8"} | program.env, program.scrub)


def test_what_the_profile_leaves_open_is_left_to_the_engine() -> None:
    argv = launched(profile()).argv

    assert "--ctx-size" not in argv
    assert "--parallel" not in argv


def test_the_profiles_own_arguments_come_last_so_that_they_win() -> None:
    argv = launched(profile("--cache-ram", "4096", context=4096)).argv

    assert argv[-2:] == ("--cache-ram", "4096")


def test_a_profile_without_gpus_is_kept_off_them_and_may_say_otherwise() -> None:
    launch = launched(profile(env={"HIP_VISIBLE_DEVICES": "0", "OMP_NUM_THREADS": "2"}))

    assert launch.env == {"CUDA_VISIBLE_DEVICES": "", "HIP_VISIBLE_DEVICES": "0", "OMP_NUM_THREADS": "2"}


def test_a_profile_with_gpus_may_use_them() -> None:
    launch = launched(profile(gpus=1))

    assert "--device" not in launch.argv
    assert launch.env == {}


def test_a_profile_with_gpus_is_shown_those_that_it_was_promised() -> None:
    nvidia, slice_of_one = (
        "GPU-00000001-0000-0000-0000-000000000000",
        "MIG-00000002-0000-0000-0000-000000000000",
    )

    launch = launched(profile(gpus=2), post=Post(gpus=(nvidia, slice_of_one)))

    assert launch.env == {"CUDA_VISIBLE_DEVICES": f"{nvidia},{slice_of_one}"}


def test_a_profile_with_gpus_cannot_choose_others() -> None:
    problem = ENGINE.profile_problem(profile(gpus=1, env={"CUDA_VISIBLE_DEVICES": "0"}))

    assert problem == (
        "variable 'CUDA_VISIBLE_DEVICES' is refused: placement chooses the GPUs; set `gpus` and `gpu_class`"
    )


GANG = Gang(addresses=("10.0.0.1", "10.0.0.2", "fd00::3"), port=21016, ports=(21017, 21017, 21017))


def test_over_several_nodes_rank_zero_uses_the_devices_of_the_others() -> None:
    launch = launched(profile(nodes=3), post=Post(gang=GANG))

    assert launch.argv[launch.argv.index("--rpc") + 1] == "10.0.0.2:21017,[fd00::3]:21017"
    assert "--device" not in launch.argv
    assert launch.env["CUDA_VISIBLE_DEVICES"] == ""
    assert launch.health_path == "/health"


def test_over_several_nodes_the_others_lend_their_devices_and_answer_no_http() -> None:
    launch = launched(profile("-t", "2", nodes=3, context=4096), post=Post(gang=GANG, rank=2))

    assert launch.argv == ("/opt/ggml-rpc-server", "--host", "fd00::3", "--port", "21017")
    assert launch.health_path == ""


def test_the_environment_runs_on_one_node_only() -> None:
    with pytest.raises(
        BadInput, match=r"the xllamacpp form of llama\.cpp runs on one node only; name a llama-server"
    ):
        launched(profile(nodes=3), PYTHON, post=Post(gang=GANG))


def test_a_profile_over_several_nodes_does_not_name_them_itself() -> None:
    problem = ENGINE.profile_problem(profile("--rpc", "10.0.0.9:1", nodes=2))

    assert problem == (
        "argument '--rpc' is refused: the profile's `nodes` say how many nodes it spans; leave it out"
    )
    assert ENGINE.profile_problem(profile("--rpc", "10.0.0.9:1")) is None


def test_embeddings_of_a_model_that_names_no_pooling_are_means() -> None:
    wanted = profile("--embeddings")

    argv = launched(wanted).argv

    assert argv[-1] == "--embeddings"
    assert argv[argv.index("--pooling") + 1] == "mean"


def test_the_models_own_pooling_is_not_overruled() -> None:
    wanted = profile("--embeddings")

    argv = launched(wanted, head=BERT_HEAD).argv

    assert "--pooling" not in argv


def test_the_profiles_pooling_wins() -> None:
    argv = launched(profile("--embeddings", "--pooling", "last")).argv

    assert argv[-2:] == ("--pooling", "last")


@pytest.mark.parametrize("args", [(), ("--reranking",)])
def test_other_profiles_get_no_pooling(args: tuple[str, ...]) -> None:
    assert "--pooling" not in launched(profile(*args)).argv


def test_variables_that_act_as_flags_are_not_inherited() -> None:
    assert set(launched(profile()).scrub) == {"LLAMA_ARG_*", "LLAMA_API_KEY", "LLAMA_SERVER_*", "AIP_MODE"}


def test_an_install_of_an_unknown_form_names_the_known_ones() -> None:
    install = EngineInstall(engine="llama.cpp", form="snap", path="/x")

    with pytest.raises(BadInput, match=r"no form 'snap'; known: llama-server, xllamacpp"):
        launched(profile(), install)


@pytest.mark.parametrize("flag", sorted(REFUSED))
def test_a_flag_that_breaks_supervision_or_opens_a_hole_is_refused_with_the_reason(flag: str) -> None:
    problem = ENGINE.profile_problem(profile("-t", "2", flag, "x"))

    assert problem == f"argument {flag!r} is refused: {REFUSED[flag]}"


@pytest.mark.parametrize(("flag", "instead"), sorted(REMOVED.items()))
def test_a_flag_of_earlier_builds_is_refused_with_what_replaced_it(flag: str, instead: str) -> None:
    problem = ENGINE.profile_problem(profile(flag))

    assert problem == f"argument {flag!r} is refused: llama.cpp no longer has it; write {instead}"


@pytest.mark.parametrize("given", ["--api_prefix", "--host=0.0.0.0", "--gpt-oss-20b-default", "--models_dir"])
def test_other_spellings_and_presets_are_refused_too(given: str) -> None:
    problem = ENGINE.profile_problem(profile(given))

    assert problem is not None
    assert problem.startswith(f"argument {given!r} is refused: ")


def test_a_nul_byte_is_refused() -> None:
    problem = ENGINE.profile_problem(profile("--chat-template", "a\0b"))

    assert problem == r"argument 'a\x00b' holds a NUL byte, which no program can be given; remove it"


@pytest.mark.parametrize("name", ["LLAMA_ARG_TOOLS", "LLAMA_API_KEY", "AIP_MODE", "LLAMA_SERVER_ROUTER_PORT"])
def test_a_variable_that_acts_as_a_flag_is_refused(name: str) -> None:
    problem = ENGINE.profile_problem(profile(env={name: "1"}))

    assert problem == f"variable {name!r} is refused: it acts behind the flags; write the flag into `args`"


@pytest.mark.parametrize(
    "args",
    [
        ("--embeddings", "--pooling", "mean"),
        ("-fa", "on", "-ctk", "q8_0", "--load-mode", "mlock"),
        ("--spec-default", "-np", "8", "--cache_ram", "0"),
        (),
    ],
)
def test_usual_arguments_and_variables_are_fine(args: tuple[str, ...]) -> None:
    assert ENGINE.profile_problem(profile(*args, env={"OMP_NUM_THREADS": "2", "AIP_MODEL": "x"})) is None


@pytest.mark.parametrize(
    ("status", "means"),
    [
        (None, Readiness.LOADING),
        (503, Readiness.LOADING),
        (200, Readiness.READY),
        (404, Readiness.BROKEN),
        (500, Readiness.BROKEN),
    ],
)
def test_readiness_is_read_from_the_status(status: int | None, means: Readiness) -> None:
    assert ENGINE.readiness(status, b"") is means


@pytest.mark.parametrize("flag", ["--embedding", "--embeddings", "--rerank", "--reranking"])
def test_a_profile_for_vectors_answers_only_embeddings(flag: str) -> None:
    assert ENGINE.tasks(profile("-t", "2", flag)) == ("embeddings",)


def test_any_other_profile_answers_chat_and_completions() -> None:
    assert ENGINE.tasks(profile("-t", "2")) == ("chat/completions", "completions")


@pytest.mark.parametrize(
    ("args", "parallel", "slots"),
    [
        ((), None, 4),
        ((), 2, 2),
        (("-np", "8"), 2, 8),
        (("--parallel", "8", "-np", "16"), None, 16),
        (("-np", "-1"), 2, 4),
        (("-np", "0"), 2, 2),
        (("-np", "many"), 2, 2),
        (("-np",), 2, 2),
    ],
)
def test_capacity_is_what_the_engine_will_make_of_profile_and_arguments(
    args: tuple[str, ...], parallel: int | None, slots: int
) -> None:
    assert ENGINE.capacity(profile(*args, parallel=parallel)) == slots


E_ = "0.00.106.039 E "

FAILURES = {
    "missing file": (
        (
            "0.00.007.702 I srv    load_model: loading model '/nope/x.gguf'",
            E_ + "gguf_init_from_file: failed to open GGUF file '/nope/x.gguf' (No such file or directory)",
            E_
            + "llama_model_load: error loading model: llama_model_loader: failed to load model from /nope/x.gguf",
            E_
            + "common_fit_params: encountered an error while trying to fit params to free device memory: failed",
            E_ + "srv  llama_server: exiting due to model loading error",
        ),
        "gguf_init_from_file: failed to open GGUF file '/nope/x.gguf' (No such file or directory)",
    ),
    "not a model": (
        (E_ + "gguf_init_from_reader: invalid magic characters: 'xxxx', expected 'GGUF'",),
        "gguf_init_from_reader: invalid magic characters: 'xxxx', expected 'GGUF'",
    ),
    "a part of a split model is missing": (
        (
            E_ + "llama_model_load: error loading model: illegal something",
            E_ + "llama_model_loader: failed to load GGUF split from m-00002-of-00003.gguf",
        ),
        "llama_model_loader: failed to load GGUF split from m-00002-of-00003.gguf",
    ),
    "a download that broke off in its header": (
        (
            E_ + "gguf_init_from_reader: failed to read key-value pairs",
            E_
            + "llama_model_load: error loading model: llama_model_loader: failed to load model from /w/a.gguf",
            E_ + "srv  llama_server: exiting due to model loading error",
        ),
        "gguf_init_from_reader: failed to read key-value pairs",
    ),
    "an architecture that came later": (
        (E_ + "llama_model_load: error loading model: unknown model architecture: 'xyz'",),
        "llama_model_load: error loading model: unknown model architecture: 'xyz'",
    ),
    "main memory": (
        (
            E_ + "ggml_aligned_malloc: insufficient memory (attempted to allocate 117187.50 MB)",
            E_ + "ggml_backend_cpu_buffer_type_alloc_buffer: failed to allocate buffer of size 122880000000",
            E_
            + "llama_init_from_model: failed to initialize the context: failed to allocate buffer for kv cache",
            E_ + "srv  llama_server: exiting due to model loading error",
        ),
        "ggml_aligned_malloc: insufficient memory (attempted to allocate 117187.50 MB)",
    ),
    "a GPU's memory": (
        (
            "ggml_backend_cuda_buffer_type_alloc_buffer: allocating 144817.04 MiB on device 0: cudaMalloc failed: "
            "out of memory",
            "alloc_tensor_range: failed to allocate CUDA0 buffer of size 151851663360",
            "llama_model_load: error loading model: unable to allocate CUDA0 buffer",
        ),
        "ggml_backend_cuda_buffer_type_alloc_buffer: allocating 144817.04 MiB on device 0: cudaMalloc failed: "
        "out of memory",
    ),
    "port in use": (
        (
            E_ + "srv         start: couldn't bind HTTP server socket, hostname: 127.0.0.1, port: 18790",
            E_ + "srv  llama_server: exiting due to HTTP server error",
        ),
        "srv         start: couldn't bind HTTP server socket, hostname: 127.0.0.1, port: 18790",
    ),
    "an unknown flag": (("error: invalid argument: --mlock",), "error: invalid argument: --mlock"),
    "a value that cannot be read": (
        ('error while handling argument "-c": stoi', "", "usage:", "", "to show complete usage, run with -h"),
        'error while handling argument "-c": stoi',
    ),
    "a library that is not installed": (
        (
            "/opt/llama-server: error while loading shared libraries: libgomp.so.1: cannot open shared object file: "
            "No such file or directory",
        ),
        "/opt/llama-server: error while loading shared libraries: libgomp.so.1: cannot open shared object file: "
        "No such file or directory",
    ),
    "a C library that is too old": (
        (
            "./llama-server: /lib/x86_64-linux-gnu/libc.so.6: version `GLIBC_2.38' not found (required by ./x)",
        ),
        "./llama-server: /lib/x86_64-linux-gnu/libc.so.6: version `GLIBC_2.38' not found (required by ./x)",
    ),
    "an environment without the engine": (
        ("error: /env/bin/python cannot import xllamacpp: No module named 'xllamacpp'",),
        "error: /env/bin/python cannot import xllamacpp: No module named 'xllamacpp'",
    ),
    "only a summary": (
        ("0.00.1.1 odd", E_ + "srv  llama_server: exiting due to model loading error"),
        "srv  llama_server: exiting due to model loading error",
    ),
    "nothing that says why": (
        ("0.02.243.024 I srv  llama_server: listening on http://127.0.0.1:4001",),
        None,
    ),
    "no output at all": ((), None),
}


@pytest.mark.parametrize("case", sorted(FAILURES))
def test_the_cause_is_found_before_its_summaries(case: str) -> None:
    lines, cause = FAILURES[case]

    assert ENGINE.failure_cause(lines) == cause


def test_a_whole_repository_is_refused_before_it_is_fetched() -> None:
    problem = ENGINE.profile_problem(replace(profile(), weights="hf://org/repo"))

    assert problem == "llama.cpp loads one GGUF file: name it, as in hf://org/repo/model-q4_k_m.gguf"
