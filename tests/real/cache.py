"""Where tests keep real things that take long to make, outside the clone."""

import os
from pathlib import Path


def cache_folder() -> Path:
    """Find the folder: $LLMGW_TEST_CACHE, else llmgw-tests in the user's cache."""
    given = os.environ.get("LLMGW_TEST_CACHE")
    if given:
        return Path(given)
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "llmgw-tests"
