"""One frame of every tag, each with every field that matters filled in."""

from fakes.catalogs import a_profile
from msgspec.structs import replace

from llmgw.core.fleet.beat import ShardUse
from llmgw.core.fleet.hardware import (
    EngineInstall,
    Fabric,
    Filesystem,
    Gpu,
    GpuProcess,
    Machine,
    Memory,
    Processor,
)
from llmgw.core.fleet.model_shape import ModelShape
from llmgw.core.fleet.shards import Claim, Gang, Phase, ShardSpec, ShardState
from llmgw.core.fleet.snapshot import Introduction
from llmgw.core.fleet.weights import Holding
from llmgw.core.ids import Generation
from llmgw.wire.frames import (
    Ack,
    AskRegister,
    DrainShard,
    FollowLogs,
    FromAgent,
    FromServer,
    Heartbeat,
    LogLines,
    LogsReply,
    LogsRequest,
    LookFor,
    Provision,
    Register,
    RemoveWeights,
    ShardStatus,
    StartShard,
    StopFollow,
    StopShard,
    TakenLogs,
    WeightsRemoved,
    Welcome,
)

GENERATION = Generation(7, 3)
INSTALL = EngineInstall(
    engine="llama.cpp", form="llama-server", path="/opt/llama/llama-server", version="b11434", problem=None
)
DISK = Filesystem(
    mount="/srv", kind="ext4", total_bytes=10**12, free_bytes=4 * 10**11, shared=False, holds=("weights",)
)
MEMORY = Memory(total_bytes=64 * 2**30, available_bytes=48 * 2**30)
PROFILE = a_profile(
    context=4096,
    parallel=4,
    min_memory_gb=2.0,
    node_selector={"rack": "b2"},
    args=("-fa", "on"),
    env={"A": "b"},
)
SPEC = ShardSpec(
    shard="gemma.0.0",
    replica="gemma.0",
    model="gemma",
    ordinal=0,
    rank=0,
    generation=GENERATION,
    fingerprint=PROFILE.fingerprint(),
    profile=PROFILE,
)
STATE = ShardState(
    shard="gemma.0.0",
    replica="gemma.0",
    model="gemma",
    ordinal=0,
    rank=0,
    generation=GENERATION,
    phase=Phase.FAILED,
    fingerprint=PROFILE.fingerprint(),
    profile="cpu",
    engine="llama.cpp",
    host="10.0.0.7",
    port=41001,
    pid=4242,
    since_s=1893456000.5,
    reason="out of memory",
    exit_status=-9,
    tail=("loading", "ggml: failed to allocate"),
    min_memory_gb=2.0,
)
GPU = Gpu(
    uuid="GPU-1",
    name="NVIDIA H100",
    gpu_class="h100",
    index=0,
    total_bytes=80,
    free_bytes=70,
    utilization=0.5,
    ecc=True,
    ecc_errors=0,
    foreign=(GpuProcess(pid=7, command="python", held_bytes=10),),
    problem="it is lost",
)
FABRIC = Fabric(name="ib-a", adapter="mlx5_0", attached=True, rate="400 Gb/sec (4X NDR)")
HOLDING = Holding(
    path="/w/0a1b.gguf",
    source="hf://org/repo/a.gguf",
    cache_name="0a1b",
    size_bytes=9,
    files=2,
    mount="/",
    device="/dev/sda1",
    used_s=1893456000.5,
    shape=ModelShape(architecture="llama", layers=2, kv_heads=(1,), window_layers=(True, False)),
)
CLAIM = Claim(memory_bytes=5, gpus=("GPU-1",), gpu_bytes=4, disk_bytes=3)
GANG = Gang(addresses=("10.0.0.7", "10.0.0.8"), port=29501, fabric="ib-a", adapters=("mlx5_0", "mlx5_0"))
INTRODUCTION = Introduction(
    node="gpu-07",
    address="10.0.0.7",
    version="0.1.0",
    pool="default",
    labels={"rack": "b2"},
    machine=Machine(
        hostname="gpu-07",
        os="Debian GNU/Linux 12",
        kernel="6.1.0",
        processor=Processor(model="EPYC", architecture="x86_64", cores=16, vector=("avx2", "avx512f")),
        memory=MEMORY,
        filesystems=(DISK,),
    ),
    engines=(INSTALL,),
    shards=(STATE,),
)

FROM_AGENT: dict[str, FromAgent] = {
    "register": Register(said=INTRODUCTION),
    "heartbeat": Heartbeat(memory=MEMORY, filesystems=(DISK,), engines=(INSTALL,)),
    "shard-status": ShardStatus(seq=5, state=STATE),
    "logs-reply": LogsReply(request_id=9, lines=("one", "two"), sources=("agent", "gemma.0.0"), error="none"),
    "heartbeat-2": Heartbeat(
        gpus=(GPU,),
        fabrics=(FABRIC,),
        weights=(HOLDING,),
        uses=(ShardUse(shard="gemma.0.0", memory_bytes=5, peak_bytes=9),),
    ),
    "weights-removed": WeightsRemoved(
        request_id=4, removed=("0a1b",), freed_bytes=7, refused={"2c3d": "it is in use"}
    ),
    "logs-reply-2": LogsReply(request_id=9, lines=("two",), sources=("agent",), left_out=1),
    "log-lines": LogLines(
        follow_id=6,
        number=2,
        lines=("one", "two"),
        cursor="2f-18:4096",
        lost_lines=1,
        lost_bytes=2,
        gap=True,
        new_run=True,
        live=True,
        ended=True,
        error="gone",
        sources=("agent", "gemma.0.0"),
    ),
    "agent-ack": Ack(seq=3, error="no such engine"),
}
FROM_SERVER: dict[str, FromServer] = {
    "welcome": Welcome(epoch=7, heartbeat_s=2.5, version="0.1.0"),
    "ask-register": AskRegister(reason="not known here"),
    "start-shard": StartShard(seq=1, spec=SPEC),
    "stop-shard": StopShard(seq=2, shard="gemma.0.0", generation=GENERATION, because="scaled down"),
    "drain-shard": DrainShard(
        seq=3, shard="gemma.0.0", generation=GENERATION, deadline_s=30.0, because="rolled"
    ),
    "start-shard-2": StartShard(seq=1, spec=replace(SPEC, claim=CLAIM, gang=GANG)),
    "look-for": LookFor(sources=("hf://org/repo/a.gguf",)),
    "remove-weights": RemoveWeights(seq=4, names=("0a1b", "2c3d")),
    "provision": Provision(seq=5, engine="llama.cpp", version="b11434"),
    "logs-request": LogsRequest(request_id=9, source="gemma.0.0", lines=200),
    "follow-logs": FollowLogs(
        follow_id=6, source="gemma.0.0", cursor="2f-18:96", until="2f-18:4096", lines=20, window=8
    ),
    "taken-logs": TakenLogs(follow_id=6, number=2),
    "stop-follow": StopFollow(follow_id=6),
    "server-ack": Ack(seq=5),
}
