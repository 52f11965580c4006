from pathlib import Path

from fakes.agent import FakeAgent
from fakes.scripted_engine import FakeEngine

from llmgw.agent.preflight import look


async def test_an_adapter_sees_the_first_bytes_of_the_weights(tmp_path: Path) -> None:
    agent = FakeAgent(tmp_path)

    await look(agent.spec(), agent.home, agent.weights)

    engine = agent.home.engines["fake"]
    assert isinstance(engine, FakeEngine)
    assert engine.head == b"GGUF"
