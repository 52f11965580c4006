"""What `llmgw agent inspect` prints."""

from pathlib import Path

from fakes.gpu_fleet import gpu_fleet
from fakes.nodes import an_introduction
from msgspec.structs import replace

from llmgw.agent.inspect import describe
from llmgw.core.fleet.hardware import Gpu, GpuProcess, Machine
from llmgw.core.fleet.weights import Holding
from llmgw.core.units import GIB

GOLDEN = Path(__file__).parent / "golden" / "inspect.txt"


def test_everything_a_node_says_is_laid_out() -> None:
    machine = gpu_fleet().nodes["gpu-1"].machine
    weights = (
        Holding(path="/srv/llmgw/weights/ab.gguf", size_bytes=2 * GIB),
        Holding(path="/srv/llmgw/weights/cd.gguf.part", size_bytes=GIB, complete=False),
        Holding(path="/mnt/models/gemma.gguf", size_bytes=GIB, shared=True, device="filer:/models"),
    )
    said = an_introduction("gpu-1", machine=machine, labels={"rack": "b2"}, version="0.1.0", weights=weights)

    assert describe(said) + "\n" == GOLDEN.read_text()


def test_a_node_that_knows_nothing_of_itself_says_so() -> None:
    said = an_introduction("n1", machine=Machine(), engines=None)

    text = describe(said)

    assert "GPU driver    -" in text
    for title in ("GPUs", "fabrics", "filesystems", "weights", "engines"):
        assert f"{title}:\n  -" in text
    assert "warnings" not in text


def test_what_is_known_to_be_empty_is_none() -> None:
    machine = Machine(gpus=(), fabrics=(), filesystems=())

    text = describe(an_introduction("n1", machine=machine, engines=(), weights=()))

    assert "GPU driver    none" in text
    assert text.count(":\n  none") == 5
    assert "it has no engine" in text


def test_memory_that_is_shared_is_called_so_and_names_of_others_cannot_steer_a_terminal() -> None:
    process = GpuProcess(pid=1, command="\x1b[31mx")
    gpu = Gpu(uuid="GPU-1", name="NVIDIA GB10", unified=True, foreign=(process,))
    said = an_introduction("n1", machine=replace(Machine(), gpus=(gpu,)))

    text = describe(said)

    assert "memory free -, which is main memory" in text
    assert "held by pid 1 (\\x1b[31mx), not ours: -" in text
