"""The real llama-server of the tests, built from source by a script."""

from pathlib import Path

from real.cache import cache_folder
from real.requirement import missing

BUILD = 11434


def llama_server_path() -> Path:
    """Return the program; without it the test is skipped."""
    path = cache_folder() / f"llama-server-b{BUILD}-2" / "llama-server"
    if not path.is_file():
        missing(f"{path} is not there: run scripts/build-llama-server (10 to 20 minutes)")
    return path
