import logging
import resource
import subprocess
import sys

import pytest
from fakes.clock import FakeClock

from llmgw.runtime.descriptors import SAY_EVERY_S, DescriptorWatch


def test_the_soft_limit_becomes_the_hard_one() -> None:
    script = (
        "import resource; resource.setrlimit(resource.RLIMIT_NOFILE, (64, 256));"
        "from llmgw.runtime.descriptors import raise_limit; print(raise_limit())"
    )

    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)

    assert done.stdout.strip() == "256"
    assert resource.getrlimit(resource.RLIMIT_NOFILE)[0] > 0


def test_a_process_without_a_descriptor_left_is_told_apart_from_one_that_has_some() -> None:
    script = (
        "import os, resource; resource.setrlimit(resource.RLIMIT_NOFILE, (64, 64));"
        "from llmgw.runtime.descriptors import spent; before = spent(); held = []\n"
        "while len(held) < 100:\n"
        "    try: held.append(os.dup(1))\n"
        "    except OSError: break\n"
        "during = spent(); os.close(held[0]); print(before, '|', during, '|', spent())"
    )

    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)

    assert done.stdout.strip() == "None | Too many open files | None"


def test_no_descriptor_left_is_logged_once_a_minute_and_its_end_once(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.INFO)
    clock, answers = FakeClock(), ["full"] * 3 + [None] * 2 + ["full", None] + ["full"]
    watch = DescriptorWatch(clock, look=lambda: answers.pop(0))

    for _ in range(7):
        watch.look()
        clock.advance(1)
    clock.advance(SAY_EVERY_S)
    watch.look()

    said = [record.message.split(",")[0] for record in caplog.records]
    assert said == [
        "no connection can be taken or made",
        "connections can be taken and made again",
        "no connection can be taken or made",
    ]
    assert "full, at most" in caplog.text
    assert "raise LimitNOFILE" in caplog.text
