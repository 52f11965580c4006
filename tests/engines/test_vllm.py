"""vLLM's command lines, alone and as one of several ranks, and what its answers and last words mean (RUN-1, RUN-11)."""

import pytest
from msgspec.structs import replace

from llmgw.core.errors import BadInput
from llmgw.core.fleet.catalog import Profile
from llmgw.core.fleet.hardware import EngineInstall
from llmgw.core.fleet.shards import Gang
from llmgw.engines.engine import Launch, Readiness
from llmgw.engines.post import ALONE, Post
from llmgw.engines.vllm import SCRUB, Vllm
from llmgw.engines.vllm_flags import REFUSED

ENGINE = Vllm("/pkg/vllm_ray.py")
INSTALL = EngineInstall(engine="vllm", form="vllm", path="/opt/vllm/bin/python", version="0.33.0")
GANG = Gang(
    addresses=("10.0.0.1", "10.0.0.2"),
    port=21016,
    fabric="ib",
    adapters=("mlx5_0", "mlx5_1:1"),
    ports=(21017,) * 2,
)
UUIDS = tuple(f"GPU-{n:08x}-0000-0000-0000-000000000000" for n in range(2))


def profile(*args: str, **fields: object) -> Profile:
    return Profile(name="p", engine="vllm", weights="file:///srv/qwen", args=args, **fields)  # type: ignore[arg-type]


def launched(wanted: Profile, post: Post = ALONE, install: EngineInstall = INSTALL) -> Launch:
    return ENGINE.launch(
        install, wanted, model="qwen", weights="/srv/qwen", host="10.0.0.1", port=4001, post=post
    )


HEAD = (
    *(
        "/opt/vllm/bin/python",
        "-I",
        "/opt/vllm/bin/vllm",
        "serve",
        "/srv/qwen",
        "--served-model-name",
        "qwen",
    ),
    *("--host", "10.0.0.1", "--port", "4001"),
)
QUIET = ("--disable-access-log-for-endpoints", "/health,/metrics")


def test_it_is_started_by_its_environments_python_with_all_that_supervision_needs() -> None:
    launch = launched(profile("--dtype", "bfloat16", context=8192, parallel=16))

    assert launch.argv == (
        *HEAD,
        *("--max-model-len", "8192", "--max-num-seqs", "16"),
        *QUIET,
        *("--dtype", "bfloat16"),
    )
    assert (launch.health_path, launch.scrub) == ("/health", SCRUB)


def test_it_fetches_nothing_and_tells_nobody() -> None:
    env = launched(profile()).env

    assert (env["HF_HUB_OFFLINE"], env["VLLM_NO_USAGE_STATS"], env["DO_NOT_TRACK"]) == ("1", "1", "1")


@pytest.mark.parametrize("version", ["0.15.1", None])
def test_a_version_that_may_not_know_a_flag_does_not_get_it(version: str | None) -> None:
    assert (
        "--disable-access-log-for-endpoints"
        not in launched(profile(), install=replace(INSTALL, version=version)).argv
    )


def test_it_is_shown_its_own_gpus_by_their_numbers_and_cut_over_them() -> None:
    launch = launched(profile(gpus=2), Post(gpus=UUIDS))

    assert launch.env["CUDA_VISIBLE_DEVICES"] == ",".join(UUIDS)
    assert launch.argv[len(HEAD) :] == ("--tensor-parallel-size", "2", *QUIET)


def test_a_profile_without_gpus_is_shown_none() -> None:
    assert launched(profile()).env["CUDA_VISIBLE_DEVICES"] == ""


def test_a_share_of_a_gpu_that_it_was_promised_is_all_that_it_takes() -> None:
    wanted = profile(gpus=1, min_gpu_memory_gb=20)

    argv = launched(wanted, Post(gpus=UUIDS[:1], gpu_share=0.25)).argv

    assert argv[argv.index("--gpu-memory-utilization") + 1] == "0.250"


def test_the_profiles_own_share_wins() -> None:
    wanted = profile("--gpu-memory-utilization=0.5", gpus=1, min_gpu_memory_gb=20)

    argv = launched(wanted, Post(gpus=UUIDS[:1], gpu_share=0.25)).argv

    assert [given for given in argv if "utilization" in given] == ["--gpu-memory-utilization=0.5"]


# several nodes


def test_rank_zero_serves_and_waits_for_the_others() -> None:
    launch = launched(profile(gpus=2, nodes=2), Post(gpus=UUIDS, gang=GANG, interface="eth0"))

    assert launch.argv == (
        *HEAD,
        *("--tensor-parallel-size", "2", "--pipeline-parallel-size", "2"),
        *QUIET,
        *("--nnodes", "2", "--node-rank", "0", "--master-addr", "10.0.0.1", "--master-port", "21016"),
    )
    assert launch.health_path == "/health"


def test_another_rank_runs_the_same_command_without_a_head() -> None:
    post = Post(gpus=UUIDS, rank=1, gang=GANG, interface="eth0")

    head, launch = (
        launched(profile(gpus=2, nodes=2), replace(post, rank=0)),
        launched(profile(gpus=2, nodes=2), post),
    )

    assert launch.argv == (*(given if given != "0" else "1" for given in head.argv), "--headless")
    assert launch.health_path == ""


def test_each_rank_is_told_its_network() -> None:
    env = launched(profile(nodes=2), Post(rank=1, gang=GANG, interface="eth0")).env

    assert env["VLLM_HOST_IP"] == "10.0.0.2"
    assert (env["NCCL_SOCKET_IFNAME"], env["GLOO_SOCKET_IFNAME"], env["TP_SOCKET_IFNAME"]) == (
        "=eth0",
        "eth0",
        "eth0",
    )
    assert env["NCCL_IB_HCA"] == "=mlx5_1:1"
    assert "NCCL_IB_DISABLE" not in env


def test_without_a_fabric_nobody_tries_adapters_that_may_not_reach_each_other_unless_the_profile_says_so() -> (
    None
):
    gang = replace(GANG, fabric=None, adapters=())

    plain = launched(profile(nodes=2), Post(gang=gang)).env
    said = launched(profile(nodes=2, env={"NCCL_IB_DISABLE": "0"}), Post(gang=gang)).env

    assert (plain["NCCL_IB_DISABLE"], said["NCCL_IB_DISABLE"]) == ("1", "0")


def test_over_ray_the_head_is_started_first_and_gets_the_server_to_start_when_all_have_joined() -> None:
    wanted = profile("--distributed-executor-backend", "ray", gpus=2, nodes=2)

    launch = launched(wanted, Post(gpus=UUIDS, gang=GANG))

    split = launch.argv.index("--")
    assert launch.argv[:split] == (
        *("/opt/vllm/bin/python", "-I", "/pkg/vllm_ray.py", "head", "--head", "10.0.0.1", "--port", "21016"),
        *("--own", "10.0.0.1", "--nodes", "2", "--gpus", "2"),
    )
    assert launch.argv[split + 1 :] == (
        *HEAD,
        *("--tensor-parallel-size", "2", "--pipeline-parallel-size", "2", *QUIET),
        *("--distributed-executor-backend", "ray"),
    )


def test_over_ray_another_rank_joins_and_serves_nothing() -> None:
    wanted = profile("--distributed-executor-backend=ray", gpus=2, nodes=2)

    launch = launched(wanted, Post(gpus=UUIDS, rank=1, gang=GANG))

    assert launch.argv == (
        *("/opt/vllm/bin/python", "-I", "/pkg/vllm_ray.py", "join", "--head", "10.0.0.1", "--port", "21016"),
        *("--own", "10.0.0.2", "--nodes", "2", "--gpus", "2", "--"),
    )
    assert launch.health_path == ""


def test_ray_on_one_node_needs_no_help() -> None:
    argv = launched(profile("--distributed-executor-backend", "ray", gpus=2), Post(gpus=UUIDS)).argv

    assert argv[:4] == HEAD[:4]


# refusals


@pytest.mark.parametrize("flag", sorted(REFUSED))
def test_a_flag_that_breaks_supervision_or_opens_a_hole_is_refused_with_the_reason(flag: str) -> None:
    problem = ENGINE.profile_problem(profile("--dtype", "half", flag, "x"))

    assert problem == f"argument {flag!r} is refused: {REFUSED[flag]}"


@pytest.mark.parametrize(
    ("given", "taken_for"),
    [
        ("--served_model_name", "is refused"),
        ("--host=::", "is refused"),
        ("-n2", "is refused"),
        ("-r1", "is refused"),
    ],
)
def test_other_spellings_are_refused_too(given: str, taken_for: str) -> None:
    problem = ENGINE.profile_problem(profile(given))

    assert problem is not None
    assert problem.startswith(f"argument {given!r} {taken_for}: ")


def test_the_beginning_of_a_refused_flag_is_refused() -> None:
    problem = ENGINE.profile_problem(profile("--hos", "0.0.0.0"))

    assert problem == (
        "argument '--hos' may be taken for --host, which is refused: the agent chooses where the engine listens; "
        "leave it out"
    )


@pytest.mark.parametrize(
    ("name", "gpus"),
    [
        ("VLLM_PORT", 0),
        ("VLLM_SERVER_DEV_MODE", 0),
        ("VLLM_DP_MASTER_PORT", 0),
        ("MASTER_ADDR", 0),
        ("RANK", 0),
    ],
)
def test_a_variable_that_acts_behind_the_flags_is_refused(name: str, gpus: int) -> None:
    problem = ENGINE.profile_problem(profile(env={name: "1"}, gpus=gpus))

    assert problem == f"variable {name!r} is refused: it acts behind the flags; write the flag into `args`"


def test_a_variable_that_chooses_gpus_is_refused() -> None:
    problem = ENGINE.profile_problem(profile(env={"CUDA_VISIBLE_DEVICES": "0"}, gpus=1))

    assert problem == (
        "variable 'CUDA_VISIBLE_DEVICES' is refused: placement chooses the GPUs; set `gpus` and `gpu_class`"
    )


@pytest.mark.parametrize(
    ("args", "fields", "problem"),
    [
        (
            ("--distributed-executor-backend", "external_launcher"),
            {},
            "--distributed-executor-backend external_launcher is not started by llmgw; write one of mp, ray, uni",
        ),
        (
            ("-tp", "4"),
            {"gpus": 2},
            "its arguments make 4 parts of the model, and it has 2 GPUs; set `gpus: 4`",
        ),
        (
            ("-tp", "8", "-pp", "4"),
            {"gpus": 8, "nodes": 2},
            "tensor-parallel-size 8 times pipeline-parallel-size 4 makes 32 parts, and 2 nodes with 8 GPUs each "
            "have 16; make them equal",
        ),
        (
            ("--api-server-count", "2"),
            {"gpus": 8, "nodes": 2},
            "--api-server-count ends every rank but the first; leave it out, or set `nodes: 1`",
        ),
        (
            ("--data-parallel-size", "2"),
            {"gpus": 8, "nodes": 2},
            "--data-parallel-size 2 over 2 nodes is not started by llmgw; set `nodes: 1` and raise `replicas`, "
            "which does the same",
        ),
    ],
)
def test_what_does_not_go_onto_its_gpus_is_refused(
    args: tuple[str, ...], fields: dict[str, int], problem: str
) -> None:
    assert ENGINE.profile_problem(profile(*args, **fields)) == problem


@pytest.mark.parametrize(
    ("args", "fields"),
    [
        (("--dtype", "half", "--device", "cpu", "-O3", "--kv_cache_dtype", "fp8"), {}),
        (("-tp", "16", "-pp", "1"), {"gpus": 8, "nodes": 2}),
        (("-tp=4",), {"gpus": 8, "nodes": 2}),
        (("--data-parallel-size", "4", "-tp", "2"), {"gpus": 8}),
        (("--pipeline-parallel-size", "2"), {"gpus": 4}),
        (("--api-server-count", "2"), {}),
        (("--distributed-executor-backend", "ray"), {"gpus": 8, "nodes": 2}),
    ],
)
def test_usual_arguments_and_variables_are_fine(args: tuple[str, ...], fields: dict[str, int]) -> None:
    env = {"VLLM_ATTENTION_BACKEND": "FLASHINFER", "NCCL_DEBUG": "INFO"}

    assert ENGINE.profile_problem(profile(*args, env=env, **fields)) is None


@pytest.mark.parametrize(
    ("args", "fields", "cut"),
    [
        ((), {"gpus": 8, "nodes": 2}, ("8", "2")),
        (("-tp", "16"), {"gpus": 8, "nodes": 2}, (None, None)),
        (("-pp", "4"), {"gpus": 4, "nodes": 2}, ("2", None)),
        (("--data-parallel-size", "2"), {"gpus": 8}, ("4", None)),
    ],
)
def test_what_the_arguments_leave_open_is_cut_over_all_gpus(
    args: tuple[str, ...], fields: dict[str, int], cut: tuple[str | None, str | None]
) -> None:
    argv = launched(profile(*args, **fields)).argv[len(HEAD) :]

    found = tuple(
        argv[argv.index(flag) + 1] if flag in argv else None
        for flag in ("--tensor-parallel-size", "--pipeline-parallel-size")
    )
    assert found == cut


def test_an_install_of_another_form_is_refused() -> None:
    with pytest.raises(BadInput, match="vLLM has no form 'docker'; known: vllm"):
        launched(profile(), install=replace(INSTALL, form="docker"))


def test_gpus_that_no_process_can_be_shown_are_refused() -> None:
    with pytest.raises(BadInput, match=r"no engine can be given the GPUs PCI-0000:03:00\.0 together"):
        launched(profile(gpus=1), Post(gpus=("PCI-0000:03:00.0",)))


# answers and facts


@pytest.mark.parametrize(
    ("status", "means"),
    [
        (None, Readiness.LOADING),
        (200, Readiness.READY),
        (503, Readiness.BROKEN),
        (404, Readiness.BROKEN),
    ],
)
def test_readiness_is_read_from_the_status(status: int | None, means: Readiness) -> None:
    assert ENGINE.readiness(status, b"") is means


@pytest.mark.parametrize(
    ("args", "tasks"), [((), ("chat/completions", "completions")), (("--runner", "pooling"), ("embeddings",))]
)
def test_it_answers_vectors_when_its_runner_pools(args: tuple[str, ...], tasks: tuple[str, ...]) -> None:
    assert ENGINE.tasks(profile(*args)) == tasks


@pytest.mark.parametrize(
    ("args", "parallel", "capacity"),
    [((), None, 256), ((), 16, 16), (("--max-num-seqs", "32"), 16, 32), (("--max-num-seqs=8",), None, 8)],
)
def test_capacity_is_what_the_engine_will_make_of_it(
    args: tuple[str, ...], parallel: int | None, capacity: int
) -> None:
    assert ENGINE.capacity(profile(*args, parallel=parallel)) == capacity


@pytest.mark.parametrize(
    ("args", "fields", "share"),
    [
        ((), {"gpus": 1}, 0.92),
        (("--gpu-memory-utilization", "0.5"), {"gpus": 1}, 0.5),
        (("--gpu-memory-utilization", "much"), {"gpus": 1}, None),
        (("--kv-cache-memory-bytes", "1000"), {"gpus": 1}, None),
        ((), {"gpus": 1, "min_gpu_memory_gb": 20.0}, None),
        (("--gpu-memory-utilization", "0.5"), {"gpus": 1, "min_gpu_memory_gb": 20.0}, 0.5),
        ((), {"gpus": 0}, None),
    ],
)
def test_it_needs_its_share_of_a_gpu_free_at_the_start(
    args: tuple[str, ...], fields: dict[str, float], share: float | None
) -> None:
    need = ENGINE.need(profile(*args, **fields), None, 7)

    assert (need.gpu_share, need.disk_bytes) == (share, 7)


NO_ROOM = (
    "ValueError: Free memory on device cuda:0 (31.44/47.38 GiB) on startup is less than desired GPU memory utilization "
    "(0.95, 45.01 GiB). Decrease GPU memory utilization or reduce GPU memory used by other processes."
)
SMALL_CACHE = (
    "ValueError: To serve at least one request with the model's max seq len (40960), (4.5 GiB KV cache is needed, "
    "which is larger than the available KV cache memory (2.1 GiB). The estimated maximum model length is 19056."
)
FAILURES = {
    "too little free memory": (
        (
            "(EngineCore_DP0 pid=812) ERROR 11-30 10:00:00 [core.py:900] Traceback (most recent call last):",
            f"(EngineCore_DP0 pid=812) {NO_ROOM}",
            "(APIServer pid=700) RuntimeError: Engine core initialization failed. See root cause above.",
        ),
        NO_ROOM,
    ),
    "a cache that does not hold one request": (
        (f"ERROR 11-30 10:00:00 [core.py:9] {SMALL_CACHE}",),
        SMALL_CACHE,
    ),
    "out of memory while loading": (
        ("torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB.",),
        "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB.",
    ),
    "an old driver": (
        ("RuntimeError: The NVIDIA driver on your system is too old (found version 12080).",),
        "RuntimeError: The NVIDIA driver on your system is too old (found version 12080).",
    ),
    "ranks that do not find each other": (
        (
            "torch.distributed.DistNetworkError: The client socket has timed out after 600000ms",
            "RuntimeError: Engine core initialization failed. See root cause above.",
        ),
        "torch.distributed.DistNetworkError: The client socket has timed out after 600000ms",
    ),
    "a flag it does not know": (
        ("usage: vllm serve", "vllm: error: unrecognized arguments: --swap-space 4"),
        "vllm: error: unrecognized arguments: --swap-space 4",
    ),
    "any other exception": (
        (
            "INFO 11-30 10:00:00 [x.py:1] fine",
            "KeyError: 'layers.0.weight'",
            "RuntimeError: Engine core initialization failed.",
        ),
        "KeyError: 'layers.0.weight'",
    ),
    "nothing but the wrapper": (
        ("RuntimeError: Engine core initialization failed. See root cause above.",),
        "RuntimeError: Engine core initialization failed. See root cause above.",
    ),
}


@pytest.mark.parametrize("which", sorted(FAILURES))
def test_the_line_that_says_why_is_found_above_what_follows_from_it(which: str) -> None:
    lines, cause = FAILURES[which]

    assert ENGINE.failure_cause(lines) == cause


def test_output_that_says_nothing_has_no_cause() -> None:
    assert ENGINE.failure_cause(("INFO 11-30 10:00:00 [x.py:1] Application startup complete.",)) is None
