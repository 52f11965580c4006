"""Calls that may hang."""

import threading

import pytest

from llmgw.agent.patience import Looks, call_within


def fail() -> None:
    raise OSError("broken")


async def test_a_call_gives_what_the_function_gives_or_raises() -> None:
    assert await call_within(5.0, lambda: 7) == 7
    assert await call_within(5.0, lambda: None) is None
    with pytest.raises(OSError, match="broken"):
        await call_within(5.0, fail)


async def test_a_call_that_hangs_is_given_up_and_not_begun_again_while_it_hangs() -> None:
    release, begun = threading.Event(), []
    looks = Looks()

    def hang() -> None:
        begun.append(1)
        release.wait(20)

    for _ in range(3):
        with pytest.raises(TimeoutError):
            await looks.within(0.05, "name", hang)
    other = await looks.within(5.0, "other", lambda: 1)
    release.set()

    assert begun == [1]
    assert other == 1
