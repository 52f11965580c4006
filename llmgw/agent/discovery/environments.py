"""Python environments of engines that are packages in them: vLLM and SGLang, as agent.yaml names them.

Such an engine takes many seconds to import, and more than that to say its version itself: the version is that of the
package, which the environment's own Python looks up without importing it.
"""

import os
import re
from pathlib import Path

from llmgw.core.fleet.hardware import EngineInstall

PACKAGES = ("vllm", "sglang")
"""Engines of this kind; the package, its script and the form of the install are called the same."""

_CODE = "import importlib.metadata, sys; print('version:', importlib.metadata.version(sys.argv[1]))"
_VERSION = re.compile(r"^version: (\d\S*)$", re.MULTILINE)


def is_package(engine: str) -> bool:
    """Tell whether an engine is a package in a Python environment."""
    return engine in PACKAGES


def describe_environment(engine: str, named: str) -> EngineInstall:
    """Tell which environment a path in agent.yaml means: its folder, its python, or the engine's script in it."""
    # Not resolved: the python of an environment is a link, and behind it is one that knows no environment.
    path = Path(os.path.abspath(named))
    folder = path / "bin" if path.is_dir() else path.parent
    python, script = folder / "python", folder / engine
    missing = next((file for file in (python, script) if not file.exists()), None)
    problem = None
    if not path.exists():
        problem = f"there is no {path}; correct `engines` in agent.yaml"
    elif missing is not None:
        problem = f"{path} is no Python environment with {engine}: there is no {missing}"
    return EngineInstall(engine=engine, form=engine, path=str(python), problem=problem)


def version_command(install: EngineInstall) -> tuple[str, ...]:
    """Spell the command that says which version of the package there is."""
    return (install.path, "-I", "-c", _CODE, install.engine)


def parse_package_version(said: str) -> str | None:
    """Read what that command said; None when it said no version."""
    found = _VERSION.search(said)
    return found[1] if found else None
