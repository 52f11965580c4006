"""Catalog entries with defaults that a test need not spell."""

from typing import Any

from llmgw.core.fleet.catalog import Catalog, Model, Profile


def a_profile(**given: Any) -> Profile:
    return Profile(
        **{"name": "cpu", "engine": "llama.cpp", "weights": "file:///srv/models/gemma.gguf"} | given
    )


def a_model(name: str = "gemma", **given: Any) -> Model:
    return Model(**{"name": name, "profiles": (a_profile(),)} | given)


def a_catalog(*models: Model) -> Catalog:
    return Catalog(models=models)


def catalog_data(*models: dict[str, Any]) -> dict[str, Any]:
    """A catalog as plain data; what a model does not say is filled in."""
    filled = []
    for model in models:
        profiles = model.get("profiles", [{}])
        filled.append(
            {"name": "gemma"}
            | model
            | {
                "profiles": [
                    {"name": "cpu", "engine": "llama.cpp", "weights": "file:///srv/models/gemma.gguf"} | p
                    for p in profiles
                ]
            }
        )
    return {"models": filled}
