"""Packaged files, frozen or not: PyInstaller lays package data out as real folders, as a wheel does."""

from importlib.resources import files
from pathlib import Path


def packaged(name: str) -> Path:
    """Find a packaged file or folder by its path below the `llmgw` package, e.g. "store/migrations"."""
    return Path(str(files("llmgw"))) / name
