"""What all tests share: property tests are never timed, and repeat themselves where nobody can look at them."""

import os

from hypothesis import HealthCheck, settings

settings.register_profile(
    "untimed",
    deadline=None,
    derandomize=bool(os.environ.get("CI")),
    print_blob=True,
    suppress_health_check=[HealthCheck.too_slow],
)
settings.load_profile("untimed")
