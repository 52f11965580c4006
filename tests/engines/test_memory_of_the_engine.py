"""What llama.cpp is reckoned to need, against what the real engine takes for the real model (PLACE-5)."""

import sys
from pathlib import Path

import pytest
from real.full_context import measure
from real.gemma import model_path
from real.llama_server import llama_server_path

from llmgw.core.fleet.catalog import Profile
from llmgw.core.fleet.hardware import EngineInstall
from llmgw.engines.llamacpp import LlamaCpp
from llmgw.runtime.resources import packaged

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]

ENGINE = LlamaCpp(str(packaged("agent/launchers/llama_server.py")))


@pytest.mark.parametrize(
    ("form", "context", "parallel"),
    [("llama-server", 1024, 1), ("llama-server", 2048, 2), ("xllamacpp", 512, 1)],
)
def test_an_estimate_is_never_below_the_peak_and_at_most_a_fifth_above_it(
    form: str, context: int, parallel: int, tmp_path: Path
) -> None:
    path = str(llama_server_path()) if form == "llama-server" else sys.executable
    install = EngineInstall(engine="llama.cpp", form=form, path=path)
    profile = Profile(
        name="cpu",
        engine="llama.cpp",
        weights=f"file://{model_path()}",
        context=context,
        parallel=parallel,
        args=("--load-mode", "none"),
    )

    found = measure(ENGINE, install, profile, model_path(), tmp_path / "log")

    assert found.ready < found.peak <= found.estimated <= 1.2 * found.peak, found
