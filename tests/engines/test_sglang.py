"""SGLang's command lines, alone and as one of several ranks, and what its answers mean (RUN-1, RUN-11)."""

import pytest
from msgspec.structs import replace

from llmgw.core.errors import BadInput
from llmgw.core.fleet.catalog import Profile
from llmgw.core.fleet.hardware import EngineInstall
from llmgw.core.fleet.shards import Gang
from llmgw.engines.engine import Launch, Readiness
from llmgw.engines.post import ALONE, Post
from llmgw.engines.sglang import SCRUB, Sglang
from llmgw.engines.sglang_flags import REFUSED

ENGINE = Sglang()
INSTALL = EngineInstall(engine="sglang", form="sglang", path="/opt/sglang/bin/python", version="0.5.23")
GANG = Gang(addresses=("fd00::1", "fd00::2"), port=21016, ports=(21017,) * 2)
AMD = "GPU-0123456789abcdef"


def profile(*args: str, **fields: object) -> Profile:
    return Profile(name="p", engine="sglang", weights="file:///srv/qwen", args=args, **fields)  # type: ignore[arg-type]


def launched(
    wanted: Profile, post: Post = ALONE, model: str = "qwen", install: EngineInstall = INSTALL
) -> Launch:
    return ENGINE.launch(
        install, wanted, model=model, weights="/srv/qwen", host="10.0.0.1", port=4001, post=post
    )


HEAD = (
    *("/opt/sglang/bin/python", "-I", "/opt/sglang/bin/sglang", "serve", "--model-path", "/srv/qwen"),
    *("--served-model-name", "qwen", "--host", "10.0.0.1", "--port", "4001", "--enable-metrics"),
)


def test_it_is_started_by_its_environments_python_with_all_that_supervision_needs() -> None:
    launch = launched(profile("--dtype", "half", context=8192, parallel=16))

    assert launch.argv == (
        *HEAD,
        *("--context-length", "8192", "--max-running-requests", "16", "--dtype", "half"),
    )
    assert (launch.health_path, launch.scrub) == ("/health", SCRUB)


def test_asking_whether_it_is_well_makes_no_token_and_ending_it_waits_for_nobody() -> None:
    env = launched(profile()).env

    assert env["SGLANG_ENABLE_HEALTH_ENDPOINT_GENERATION"] == "0"
    assert env["SGL_FORCE_SHUTDOWN"] == "1"


def test_gpus_of_amd_are_shown_by_their_numbers_too() -> None:
    launch = launched(profile(gpus=1), Post(gpus=(AMD,)))

    assert launch.env["ROCR_VISIBLE_DEVICES"] == AMD
    assert "CUDA_VISIBLE_DEVICES" not in launch.env


def test_gpus_of_two_makers_cannot_be_given_together() -> None:
    with pytest.raises(BadInput, match="all must be of one maker"):
        launched(profile(gpus=2), Post(gpus=(AMD, "GPU-00000001-0000-0000-0000-000000000000")))


def test_a_share_that_it_was_promised_leaves_room_for_what_it_takes_beside() -> None:
    argv = launched(profile(gpus=1, min_gpu_memory_gb=20), Post(gpus=(AMD,), gpu_share=0.5)).argv

    assert argv[argv.index("--mem-fraction-static") + 1] == "0.400"


@pytest.mark.parametrize("rank", [0, 1])
def test_every_rank_runs_the_same_command_with_its_number(rank: int) -> None:
    launch = launched(profile(gpus=8, nodes=2), Post(rank=rank, gang=GANG, interface="eth0"))

    assert launch.argv == (
        *HEAD,
        *(
            "--tp-size",
            "16",
            "--nnodes",
            "2",
            "--node-rank",
            str(rank),
            "--dist-init-addr",
            "[fd00::1]:21016",
        ),
    )
    assert (launch.health_path, launch.stop_grace_s) == (("", 5.0) if rank else ("/health", 20.0))
    assert launch.env["SGLANG_HOST_IP"] == GANG.addresses[rank]
    assert launch.env["NCCL_SOCKET_IFNAME"] == "=eth0"


def test_a_model_whose_name_it_does_not_take_is_refused() -> None:
    with pytest.raises(
        BadInput, match="takes no model name with a colon, and this is 'qwen:8b'; rename the model"
    ):
        launched(profile(), model="qwen:8b")


def test_an_install_of_another_form_is_refused() -> None:
    with pytest.raises(BadInput, match="SGLang has no form 'docker'"):
        launched(profile(), install=replace(INSTALL, form="docker"))


@pytest.mark.parametrize("flag", sorted(REFUSED))
def test_a_flag_that_breaks_supervision_or_opens_a_hole_is_refused_with_the_reason(flag: str) -> None:
    problem = ENGINE.profile_problem(profile("--dtype", "half", flag, "x"))

    assert problem == f"argument {flag!r} is refused: {REFUSED[flag]}"


def test_a_size_is_written_out() -> None:
    problem = ENGINE.profile_problem(profile("--pp", "2"))

    assert problem == (
        "argument '--pp' is refused: a beginning of several flags, on which the engine may end; write --pp-size"
    )


@pytest.mark.parametrize(
    ("args", "fields", "problem"),
    [
        (
            ("--dp-size", "2"),
            {"nodes": 2},
            "--dp-size 2 works on one node only, and `nodes` is 2; write --attn-dp-size, or raise `replicas`",
        ),
        (
            ("--tp-size", "3"),
            {"nodes": 2, "gpus": 2},
            "its arguments make 3 parts of the model, which 2 nodes cannot share evenly",
        ),
        (
            ("--tp-size", "16"),
            {"nodes": 2, "gpus": 4},
            "its arguments make 8 parts for each node, and it has 4 GPUs there; set `gpus: 8`",
        ),
    ],
)
def test_what_does_not_go_onto_its_gpus_is_refused(
    args: tuple[str, ...], fields: dict[str, int], problem: str
) -> None:
    assert ENGINE.profile_problem(profile(*args, **fields)) == problem


@pytest.mark.parametrize(
    "name", ["SGLANG_HOST_IP", "SGL_FORCE_SHUTDOWN", "SGLANG_ENABLE_HEALTH_ENDPOINT_GENERATION", "WORLD_SIZE"]
)
def test_a_variable_that_acts_behind_the_flags_is_refused(name: str) -> None:
    problem = ENGINE.profile_problem(profile(env={name: "1"}))

    assert problem == f"variable {name!r} is refused: it acts behind the flags; write the flag into `args`"


@pytest.mark.parametrize(
    ("args", "fields"),
    [
        (("--tp-size", "8", "--pp-size", "2"), {"gpus": 8, "nodes": 2}),
        (("--dp-size", "2", "--tp-size", "4"), {"gpus": 8}),
        (("--is-embedding", "--trust-remote-code"), {}),
    ],
)
def test_usual_arguments_are_fine(args: tuple[str, ...], fields: dict[str, int]) -> None:
    assert ENGINE.profile_problem(profile(*args, env={"NCCL_DEBUG": "INFO"}, **fields)) is None


@pytest.mark.parametrize(
    ("status", "means"),
    [
        (None, Readiness.LOADING),
        (503, Readiness.LOADING),
        (200, Readiness.READY),
        (500, Readiness.BROKEN),
    ],
)
def test_readiness_is_read_from_the_status(status: int | None, means: Readiness) -> None:
    assert ENGINE.readiness(status, b"") is means


def test_it_answers_vectors_when_started_for_them() -> None:
    assert ENGINE.tasks(profile("--is-embedding")) == ("embeddings",)
    assert ENGINE.tasks(profile()) == ("chat/completions", "completions")


@pytest.mark.parametrize(
    ("args", "parallel", "capacity"),
    [((), None, 64), ((), 16, 16), (("--max-running-requests", "32"), 16, 32)],
)
def test_capacity_is_what_the_engine_will_make_of_it(
    args: tuple[str, ...], parallel: int | None, capacity: int
) -> None:
    assert ENGINE.capacity(profile(*args, parallel=parallel)) == capacity


@pytest.mark.parametrize(
    ("args", "gpus", "share"),
    [
        ((), 1, None),
        (("--mem-fraction-static", "0.5"), 1, 0.6),
        (("--mem-fraction-static", "0.95"), 1, 1.0),
        ((), 0, None),
    ],
)
def test_a_static_share_needs_a_little_more_than_itself(
    args: tuple[str, ...], gpus: int, share: float | None
) -> None:
    assert ENGINE.need(profile(*args, gpus=gpus), None, None).gpu_share == share


FAILURES = {
    "too little memory": (
        (
            "[2026-11-30 10:00:00 TP0] Scheduler hit an exception: Traceback (most recent call last):",
            "RuntimeError: Not enough memory. Please try to increase --mem-fraction-static. Current value: 0.3",
            "[2026-11-30 10:00:01] Received sigquit from a child process. It usually means the child failed.",
        ),
        "RuntimeError: Not enough memory. Please try to increase --mem-fraction-static. Current value: 0.3",
    ),
    "a port that is taken": (
        ("[2026-11-30 10:00:00] Port is already in use. dist_init_port=21016",),
        "Port is already in use. dist_init_port=21016",
    ),
    "an ambiguous flag": (
        ("sglang serve: error: ambiguous option: --pp could match --pp-size, --pp-x",),
        "sglang serve: error: ambiguous option: --pp could match --pp-size, --pp-x",
    ),
    "a scheduler that died without a word": (
        ("RuntimeError: Rank 0 scheduler died during initialization (exit code: -9).",),
        "RuntimeError: Rank 0 scheduler died during initialization (exit code: -9).",
    ),
}


@pytest.mark.parametrize("which", sorted(FAILURES))
def test_the_line_that_says_why_is_found_above_what_follows_from_it(which: str) -> None:
    lines, cause = FAILURES[which]

    assert ENGINE.failure_cause(lines) == cause


def test_output_that_says_nothing_has_no_cause() -> None:
    assert ENGINE.failure_cause(("The server is fired up and ready to roll!",)) is None
