"""An engine adapter that answers chat, and refuses profiles that hold the argument --forbidden."""

from llmgw.core.fleet.catalog import Profile
from llmgw.core.fleet.hardware import EngineInstall
from llmgw.core.fleet.model_shape import ModelShape
from llmgw.core.placement.need import Need
from llmgw.core.routing.table import CHAT
from llmgw.engines.engine import Launch, Metrics, Readiness
from llmgw.engines.post import ALONE, Post


class FakeAdapter:
    """Stands in for llama.cpp in a control plane that never launches anything."""

    name = "llama.cpp"
    takes_folders = False
    metrics = Metrics(running="r", waiting="w", prompt_tokens="p", generated_tokens="g")

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
        return Launch(argv=(install.path, weights))

    def profile_problem(self, profile: Profile) -> str | None:
        return "argument '--forbidden' is refused: leave it out" if "--forbidden" in profile.args else None

    def readiness(self, status: int | None, body: bytes) -> Readiness:
        return Readiness.READY if status == 200 else Readiness.LOADING

    def tasks(self, profile: Profile) -> tuple[str, ...]:
        return (CHAT,)

    def capacity(self, profile: Profile) -> int:
        return profile.parallel or 4

    def need(self, profile: Profile, shape: ModelShape | None, weights_bytes: int | None) -> Need:
        return Need(memory_bytes=weights_bytes, estimated_bytes=weights_bytes)

    def failure_cause(self, lines: tuple[str, ...]) -> str | None:
        return None
