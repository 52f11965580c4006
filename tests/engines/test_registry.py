from llmgw.engines.registry import KNOWN, engines


def test_every_known_engine_has_an_adapter_of_that_name() -> None:
    made = engines({"xllamacpp": "/pkg/llama_server.py"})

    assert tuple(made) == KNOWN
    assert [adapter.name for adapter in made.values()] == list(KNOWN)
