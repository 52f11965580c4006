"""The engines this build knows, written out by hand."""

from collections.abc import Mapping

from llmgw.engines.engine import Engine
from llmgw.engines.llamacpp import ENVIRONMENT, LlamaCpp

KNOWN: tuple[str, ...] = (LlamaCpp.name,)
"""Names of engines that a catalog may ask for."""


def engines(launchers: Mapping[str, str]) -> dict[str, Engine]:
    """Make every adapter, by the name that catalogs use.

    Args:
        launchers: path of the launcher script of each form that needs one, e.g. {"xllamacpp": "/.../x.py"}.
    """
    return {LlamaCpp.name: LlamaCpp(launchers[ENVIRONMENT])}
