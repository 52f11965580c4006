"""Environments as engines have them, with the fakes in the place of the engines."""

import sys
import venv
from pathlib import Path

FAKES = Path(__file__).resolve().parents[1] / "fakes"
VERSIONS = {"vllm": "0.33.0", "sglang": "0.5.23"}

# What a driver script asks of Ray, answered by the fake head.
RAY_MODULE = """
import socket
_head = None
def init(address, **_):
    global _head
    host, _, port = address.rpartition(":")
    _head = (host, int(port))
def nodes():
    with socket.create_connection(_head, timeout=5) as asked:
        asked.sendall(b"count\\n")
        return [{"Alive": True}] * int(asked.makefile().readline())
"""


def make_environment(folder: Path, engine: str) -> Path:
    """Make a Python environment that has the fake vLLM or SGLang, and Ray."""
    packages = folder / f"lib/python{sys.version_info[0]}.{sys.version_info[1]}/site-packages"
    described = packages / f"{engine}-{VERSIONS[engine]}.dist-info"
    described.mkdir(parents=True)
    (described / "METADATA").write_text(f"Name: {engine}\nVersion: {VERSIONS[engine]}\n")
    (packages / "ray.py").write_text(RAY_MODULE)
    venv.EnvBuilder(symlinks=True).create(folder)
    _script(folder / "bin" / engine, FAKES / "gang_engine.py", engine)
    _script(folder / "bin" / "ray", FAKES / "ray_program.py")
    return folder


def make_programs(folder: Path) -> Path:
    """Make a folder with the fake llama-server and, beside it, the fake rpc server; returns the former."""
    folder.mkdir(parents=True)
    for name in ("llama-server", "ggml-rpc-server"):
        program = folder / name
        program.write_text(f'#!/bin/sh\nexec {sys.executable} -I {FAKES / "gang_engine.py"} {name} "$@"\n')
        program.chmod(0o755)
    return folder / "llama-server"


def _script(path: Path, program: Path, *first: str) -> None:
    path.write_text(
        "import runpy, sys\n"
        f"sys.argv[:1] = [{str(program)!r}, *{list(first)!r}]\n"
        f"runpy.run_path({str(program)!r}, run_name='__main__')\n"
    )
