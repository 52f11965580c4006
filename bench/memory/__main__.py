"""Compare the memory a real engine takes with what llmgw reckons for it.

Usage: python bench/memory [--short] [CONTEXTxPARALLEL...]

Each size is a fresh engine with the real model, started as llmgw starts it but with its weights read and not mapped, in
a fresh control group; every slot gets one prompt that fills its context, all of them at once. The last line is
`RESULT {"pass": ..., ...}`; it passes when no estimate is below the measured peak or more than 20 % above it.
"""

import argparse
import json
import os
import re
import signal
import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2] / "tests"))

from real.full_context import Measured, measure
from real.gemma import llama_server_path, model_path

from llmgw.core.fleet.catalog import Profile
from llmgw.core.fleet.hardware import EngineInstall
from llmgw.engines.llamacpp import PROGRAM, LlamaCpp
from llmgw.runtime.resources import packaged

SIZES = ("2048x1", "8192x4", "32768x4")
SHORT = ("1024x1", "2048x2", "4096x4")
MIB = 1024**2
MOST = 1.2


def main() -> int:
    """Measure the sizes that were asked for; returns 0 when every estimate holds."""
    parser = argparse.ArgumentParser(prog="bench/memory", description=__doc__.splitlines()[0])
    parser.add_argument("--short", action="store_true", help=f"smaller contexts: {', '.join(SHORT)}")
    parser.add_argument("sizes", nargs="*", metavar="CONTEXTxPARALLEL", help=f"{', '.join(SIZES)} when none")
    parser.add_argument("--model", type=Path, help="another model than the tests' own, a GGUF file")
    parser.add_argument("--arg", action="append", default=[], help="one more argument for the engine")
    given = parser.parse_args()
    sizes = given.sizes or (SHORT if given.short else SIZES)
    for size in sizes:
        if not re.fullmatch(r"[1-9]\d*x[1-9]\d*", size):
            parser.error(f"wanted a context and how many slots share it, as in 8192x4, found {size!r}")
    # So that an engine that was started, and its group, are gone when this is ended.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    # What is missing is an error here, never a test that was left out.
    os.environ["CI"] = "true"
    model = given.model or model_path()
    print(f"{'size':>10} {'estimate':>10} {'ready':>10} {'peak':>10}  ratio   (MiB)")
    found = {}
    for size in sizes:
        found[size] = one = _measured(size, model, given.arg)
        figures = " ".join(f"{part / MIB:>10.1f}" for part in (one.estimated, one.ready, one.peak))
        print(f"{size:>10} {figures}  {one.ratio:.3f}", flush=True)
    passed = all(1 <= one.ratio <= MOST for one in found.values())
    print(f"peak is {next(iter(found.values())).how}")
    print("RESULT", json.dumps({"pass": passed} | {size: round(one.ratio, 3) for size, one in found.items()}))
    return 0 if passed else 1


def _measured(size: str, model: Path, args: list[str]) -> Measured:
    context, parallel = map(int, size.split("x"))
    profile = Profile(
        name="bench",
        engine=LlamaCpp.name,
        weights=f"file://{model}",
        context=context,
        parallel=parallel,
        args=("--load-mode", "none", *args),
    )
    engine = LlamaCpp(str(packaged("agent/launchers/llama_server.py")))
    install = EngineInstall(engine=LlamaCpp.name, form=PROGRAM, path=str(llama_server_path()))
    with tempfile.TemporaryDirectory() as folder:
        return measure(engine, install, profile, model, Path(folder) / "engine.log")


if __name__ == "__main__":
    sys.exit(main())
