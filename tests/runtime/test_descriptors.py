import resource
import subprocess
import sys


def test_the_soft_limit_becomes_the_hard_one() -> None:
    script = (
        "import resource; resource.setrlimit(resource.RLIMIT_NOFILE, (64, 256));"
        "from llmgw.runtime.descriptors import raise_limit; print(raise_limit())"
    )

    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)

    assert done.stdout.strip() == "256"
    assert resource.getrlimit(resource.RLIMIT_NOFILE)[0] > 0
