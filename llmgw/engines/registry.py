"""The engines this build knows, written out by hand."""

from collections.abc import Mapping

from llmgw.engines.engine import Engine
from llmgw.engines.llamacpp import ENVIRONMENT, LlamaCpp
from llmgw.engines.sglang import Sglang
from llmgw.engines.vllm import RAY_LAUNCHER, Vllm

KNOWN: tuple[str, ...] = (LlamaCpp.name, Vllm.name, Sglang.name)
"""Names of engines that a catalog may ask for."""


def engines(launchers: Mapping[str, str]) -> dict[str, Engine]:
    """Make every adapter, by the name that catalogs use.

    Args:
        launchers: path of the launcher script of each form that needs one, e.g. {"xllamacpp": "/.../x.py"}; what only
            plans and never launches need name none.
    """
    made: tuple[Engine, ...] = (
        LlamaCpp(launchers.get(ENVIRONMENT, "")),
        Vllm(launchers.get(RAY_LAUNCHER, "")),
        Sglang(),
    )
    return {engine.name: engine for engine in made}
