"""Engines on this node: those that agent.yaml names and the one in llmgw's own environment, each seen to run.

What agent.yaml may name for llama.cpp: the llama-server program, the folder it lies in, a Python environment that has
xllamacpp, or that environment's python. vLLM and SGLang are named by their environment (environments.py). An engine
that does not run stays in the list with the reason.
"""

import asyncio
import contextlib
import importlib.util
import os
import re
import sys
import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path

import msgspec

from llmgw.agent.discovery.environments import (
    describe_environment,
    is_package,
    parse_package_version,
    version_command,
)
from llmgw.agent.engine_log import open_for_engine
from llmgw.agent.engine_process import EngineProcess
from llmgw.agent.output import tail
from llmgw.agent.patience import Looks
from llmgw.agent.processes import signal_name
from llmgw.core.fleet.hardware import EngineInstall
from llmgw.runtime.subprocess import clean_environment

PROGRAM = "llama-server"
ENVIRONMENT = "xllamacpp"
VERSION_LIMIT_S = 20.0
LOOK_LIMIT_S = 5.0
_MOST_LINES = 50

LOOKING = "it is being looked at: it has not told its version yet"
"""What is wrong with an engine that nobody has seen to run since the agent began."""
Seen = Callable[[tuple[EngineInstall, ...]], None]

# New builds say `version: 0.6.0-dev (build 11434, commit abc1234)`, older ones `version: 9837 (b3fed31b9)`.
_VERSIONS = (re.compile(r"\(build (\d+)"), re.compile(r"^version: (\d+)\b", re.MULTILINE))
_PYTHON = re.compile(r"python[0-9.]*\Z")


def parse_version(said: str) -> str | None:
    """Read what `llama-server --version` said, in either format, as `b11434`; None when it said no version."""
    for pattern in _VERSIONS:
        if found := pattern.search(said):
            return f"b{found[1]}"
    return None


def describe(engine: str, named: str) -> EngineInstall:
    """Tell what kind of install a path in agent.yaml is; `problem` says when it is none. Looks at the disk."""
    if is_package(engine):
        return describe_environment(engine, named)
    # Not resolved: the python of an environment is a link, and behind it is one that knows no environment.
    path = Path(os.path.abspath(named))
    if path.is_dir():
        for inside, form in (
            (path / PROGRAM, PROGRAM),
            (path / "bin" / PROGRAM, PROGRAM),
            (path / "bin" / "python", ENVIRONMENT),
        ):
            if inside.exists():
                return EngineInstall(engine=engine, form=form, path=str(inside))
        problem = f"the folder {path} holds neither {PROGRAM} nor a Python environment (bin/python)"
        return EngineInstall(engine=engine, form=PROGRAM, path=str(path), problem=problem)
    form = ENVIRONMENT if _PYTHON.match(path.name) else PROGRAM
    missing = None if path.exists() else f"there is no file {path}; correct `engines` in agent.yaml"
    return EngineInstall(engine=engine, form=form, path=str(path), problem=missing)


def own_environment() -> EngineInstall | None:
    """Find xllamacpp beside llmgw itself; a frozen llmgw has no environment that could hold it."""
    if getattr(sys, "frozen", False) or importlib.util.find_spec(ENVIRONMENT) is None:
        return None
    return EngineInstall(engine="llama.cpp", form=ENVIRONMENT, path=sys.executable)


class EngineProbe:
    """Finds the engines of this node and runs each to see whether it works."""

    def __init__(
        self,
        named: Mapping[str, str],
        *,
        launcher: Path,
        known: tuple[str, ...],
        own: EngineInstall | None,
        limit_s: float = VERSION_LIMIT_S,
    ) -> None:
        """Take what is to be looked at.

        Args:
            named: path by engine, from agent.yaml.
            launcher: the script that an environment's Python runs.
            known: engines this version has an adapter for.
            own: the engine in llmgw's own environment, if there is one.
            limit_s: seconds an engine has to say its version.
        """
        self._named = named
        self._launcher = launcher
        self._known = known
        self._own = own
        self._limit_s = limit_s
        self._looks = Looks()

    def expected(self) -> tuple[EngineInstall, ...]:
        """List the engines that are to be looked at, without looking: what each still lacks is its problem."""
        named = [
            EngineInstall(engine=engine, form=PROGRAM, path=os.path.abspath(path), problem=LOOKING)
            for engine, path in self._named.items()
        ]
        own = [] if self._own is None else [msgspec.structs.replace(self._own, problem=LOOKING)]
        return (*named, *own)

    async def installs(self, seen: Seen | None = None) -> tuple[EngineInstall, ...]:
        """Look at every engine now, all at once, the named ones first.

        Args:
            seen: told all of them whenever one more has been looked at; the others are as expected until then.
        """
        found = list(self.expected())
        named = list(self._named.items())

        async def look(place: int) -> None:
            described = await self._described(*named[place]) if place < len(named) else self._own
            assert described is not None
            found[place] = await self._checked(described)
            if seen is not None:
                seen(tuple(found))

        await asyncio.gather(*(look(place) for place in range(len(found))))
        named_paths = {install.path for install in found[: len(named)]}
        return tuple(f for i, f in enumerate(found) if i < len(named) or f.path not in named_paths)

    async def _described(self, engine: str, path: str) -> EngineInstall:
        try:
            return await self._looks.within(LOOK_LIMIT_S, path, lambda: describe(engine, path))
        except TimeoutError:
            problem = f"the filesystem of {path} did not answer within {LOOK_LIMIT_S:g} s"
            return EngineInstall(engine=engine, form=PROGRAM, path=path, problem=problem)

    async def _checked(self, install: EngineInstall) -> EngineInstall:
        if install.problem is not None:
            return install
        if install.engine not in self._known:
            problem = f"this agent knows no engine {install.engine!r}, only {', '.join(self._known)}"
            return msgspec.structs.replace(install, problem=problem)
        status, said = await self._run(install)
        parse = parse_package_version if is_package(install.engine) else parse_version
        version = parse("\n".join(said))
        return msgspec.structs.replace(
            install, version=version, problem=_problem(install, status, said, version)
        )

    async def _run(self, install: EngineInstall) -> tuple[int | None, tuple[str, ...]]:
        """Ask an engine for its version: exit status (None when it cannot be started or did not end) and words."""
        argv = self._command(install)
        # English messages, and paths that are not ASCII: Python reads an environment's .pth files in this locale.
        env = clean_environment(os.environ, add={"LC_ALL": "C.UTF-8"})
        with tempfile.TemporaryDirectory(prefix="llmgw-probe-") as folder:
            said = Path(folder) / "said"
            try:
                output = open_for_engine(said)
                try:
                    process = EngineProcess.spawn(
                        argv, env=env, mark=None, output=output, folder=Path(folder)
                    )
                finally:
                    os.close(output)
            except (OSError, ValueError) as error:
                return None, (f"it cannot be started: {getattr(error, 'strerror', None) or error}",)
            status = await self._ended(process)
            if status is None:
                return None, (f"it did not answer --version within {self._limit_s:g} s",)
            return status, tail(said, _MOST_LINES)

    def _command(self, install: EngineInstall) -> tuple[str, ...]:
        if is_package(install.engine):
            return version_command(install)
        if install.form == ENVIRONMENT:
            return (install.path, "-I", str(self._launcher), "--version")
        return (install.path, "--version")

    async def _ended(self, process: EngineProcess) -> int | None:
        """Wait for the end and end whatever is left behind; None when the time was over, or it would not die."""
        in_time = False
        try:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(self._limit_s):
                    await process.wait()
                in_time = True
            status = await process.stop(0.0)
            return status if in_time else None
        except asyncio.CancelledError:
            with contextlib.suppress(TimeoutError):
                await process.stop(0.0)
            raise
        except TimeoutError:
            return None
        finally:
            process.release()


def _problem(
    install: EngineInstall, status: int | None, said: tuple[str, ...], version: str | None
) -> str | None:
    last = said[-1][:300] if said else "no output"
    if is_package(install.engine) and (status or version is None):
        return f"{install.path} has no package {install.engine} that tells its version: {last}"
    if status is None:
        return f"{install.path}: {last}"
    if status < 0:
        return f"{install.path} --version was killed by {signal_name(-status)}: {last}"
    if status > 0:
        return f"{install.path} --version ended with status {status}: {last}"
    if version is None:
        return f"{install.path} --version named no version; is it llama-server? Its last words: {last}"
    return None
