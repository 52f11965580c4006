"""What a test does when something real is not there: it says so, and on a build machine it fails."""

import os
from typing import NoReturn

import pytest


def missing(reason: str) -> NoReturn:
    """Skip the test, or fail it where CI=true: a build machine that skips the real engine tests nothing."""
    if os.environ.get("CI") == "true":
        pytest.fail(reason)
    pytest.skip(reason)
