"""An engine adapter whose program is tests/fakes/engine_program.py; a profile's arguments are its switches."""

import sys
from pathlib import Path

from llmgw.core.fleet.catalog import Profile
from llmgw.core.fleet.hardware import EngineInstall
from llmgw.core.fleet.model_shape import ModelShape
from llmgw.core.placement.need import Need
from llmgw.engines.engine import Launch, Metrics, Readiness
from llmgw.engines.post import ALONE, Post

PROGRAM = Path(__file__).with_name("engine_program.py")
INSTALL = EngineInstall(engine="fake", form="program", path=sys.executable, version="b1")


class FakeEngine:
    """Knows one argument that it refuses: --forbidden."""

    name = "fake"
    takes_folders = False
    metrics = Metrics(running="r", waiting="w", prompt_tokens="p", generated_tokens="g")

    def __init__(self, *, stop_grace_s: float = 5.0, needs: Need | None = None) -> None:
        self.needs = needs or Need()
        self.stop_grace_s = stop_grace_s
        self.head = b""
        self.post = ALONE

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
        self.head, self.post = head, post
        argv = (install.path, "-I", str(PROGRAM), "--host", host, "--port", str(port), *profile.args)
        return Launch(
            argv=argv,
            env=profile.env,
            scrub=("FAKE_*",),
            health_path="" if post.follows else "/health",
            stop_grace_s=self.stop_grace_s,
        )

    def profile_problem(self, profile: Profile) -> str | None:
        return "argument '--forbidden' is refused" if "--forbidden" in profile.args else None

    def readiness(self, status: int | None, body: bytes) -> Readiness:
        if status is None or status == 503:
            return Readiness.LOADING
        return Readiness.READY if status == 200 else Readiness.BROKEN

    def tasks(self, profile: Profile) -> tuple[str, ...]:
        return ("chat",)

    def capacity(self, profile: Profile) -> int:
        return 1

    def need(self, profile: Profile, shape: ModelShape | None, weights_bytes: int | None) -> Need:
        return self.needs

    def failure_cause(self, lines: tuple[str, ...]) -> str | None:
        return next((line for line in lines if line.startswith("cause:")), None)
