"""The contract every engine adapter fulfils; each fact in an adapter names the engine version it was read from."""

from enum import StrEnum
from typing import Protocol

import msgspec

from llmgw.core.fleet.catalog import Profile
from llmgw.core.fleet.hardware import EngineInstall
from llmgw.core.fleet.model_shape import ModelShape
from llmgw.core.placement.need import Need
from llmgw.engines.post import ALONE, Post


class Readiness(StrEnum):
    """What an answer to the readiness probe means."""

    READY = "ready"
    LOADING = "loading"
    BROKEN = "broken"


class Launch(msgspec.Struct, frozen=True, kw_only=True):
    """How to start one engine process.

    Attributes:
        argv: the program and its arguments.
        env: variables to add to the agent's clean environment.
        scrub: names (or, with a final *, beginnings of names) of variables that must not be inherited.
        health_path: HTTP path that tells readiness; empty for a process that serves no HTTP, which is ready when it
            has run for a moment.
        stop_grace_s: seconds between SIGTERM and SIGKILL.
    """

    argv: tuple[str, ...]
    env: dict[str, str] = {}
    scrub: tuple[str, ...] = ()
    health_path: str = "/health"
    stop_grace_s: float = 10.0


class Metrics(msgspec.Struct, frozen=True, kw_only=True):
    """What the engine calls its metrics at GET /metrics; None is what it does not have.

    Attributes:
        running: gauge of requests that are being answered.
        waiting: gauge of requests that wait for their turn.
        cache_share: gauge of how full the cache of keys is, 0 to 1.
        prompt_tokens: counter of tokens read.
        cached_tokens: counter of those that were in the cache already.
        generated_tokens: counter of tokens made.
        first_token_s: histogram of seconds until the first token.
    """

    running: str
    waiting: str
    cache_share: str | None = None
    prompt_tokens: str
    cached_tokens: str | None = None
    generated_tokens: str
    first_token_s: str | None = None


class Engine(Protocol):
    """What llmgw needs to know of an engine.

    Attributes:
        takes_folders: its weights may be a folder of files.
        metrics: what its metrics are called.
    """

    name: str
    takes_folders: bool
    metrics: Metrics

    def launch(
        self,
        install: EngineInstall,
        profile: Profile,
        *,
        model: str,
        weights: str,
        host: str,
        port: int,
        head: bytes = b"",
        post: Post = ALONE,
    ) -> Launch:
        """Say how to start the engine for a profile.

        Args:
            model: the name it should answer to.
            weights: path of the weights on this node.
            head: the first bytes of the weights (a MiB is enough), for what only they tell; empty when not read.
            post: what it has of its node, and its place among other ranks.

        Raises:
            BadInput: it cannot be started so; the message says why and what to do.
        """

    def profile_problem(self, profile: Profile) -> str | None:
        """Say why this engine cannot run the profile at all (an argument it must not get), or None."""

    def readiness(self, status: int | None, body: bytes) -> Readiness:
        """Read the answer to the health probe; `status` None means that nothing listened."""

    def tasks(self, profile: Profile) -> tuple[str, ...]:
        """List what it answers under /v1 when started so (names of core.routing.table)."""

    def capacity(self, profile: Profile) -> int:
        """Say how many requests it serves at once when started so."""

    def need(self, profile: Profile, shape: ModelShape | None, weights_bytes: int | None) -> Need:
        """Reckon the memory it needs when started so.

        Args:
            shape: of the model in the weights; None when no node has told it.
            weights_bytes: of all files of the weights; None when nobody knows.

        Returns:
            What is known before anything is started; what was given or measured is not this one's to say.
        """

    def failure_cause(self, lines: tuple[str, ...]) -> str | None:
        """Find the line that says why it failed among its last lines of output, or None."""
