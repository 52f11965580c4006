"""The route table: every model a client may ask for and the endpoints that answer, as one immutable value."""

import msgspec

from llmgw.core.ids import Generation

CHAT = "chat/completions"
COMPLETIONS = "completions"
EMBEDDINGS = "embeddings"


class Endpoint(msgspec.Struct, frozen=True, kw_only=True):
    """One ready engine.

    Attributes:
        capacity: requests it serves at once.
        tasks: the endpoints under /v1 it answers, e.g. ("chat/completions", "completions").
        engine: its name, for messages.
    """

    replica: str
    model: str
    generation: Generation
    node: str
    host: str
    port: int
    engine: str
    profile: str
    capacity: int = 1
    tasks: tuple[str, ...] = ()


class ModelRoute(msgspec.Struct, frozen=True, kw_only=True):
    """One model of the catalog.

    Attributes:
        why_not: why no endpoint is ready, with numbers, for the 503; None when one is.
        retry_after_s: when a client should ask again, seconds.
        created_s: Unix seconds at which the model entered the catalog, for /v1/models.
    """

    name: str
    aliases: tuple[str, ...] = ()
    fallback: tuple[str, ...] = ()
    endpoints: tuple[Endpoint, ...] = ()
    why_not: str | None = None
    retry_after_s: float = 5.0
    created_s: int = 0


class RouteTable(msgspec.Struct, frozen=True):
    """Models by every name they answer to; a request keeps the table it started with."""

    by_name: dict[str, ModelRoute] = {}

    def models(self) -> tuple[ModelRoute, ...]:
        """List each model once, by its own name."""
        return tuple(route for name, route in self.by_name.items() if name == route.name)


def build_table(routes: tuple[ModelRoute, ...]) -> RouteTable:
    """Index routes by name and alias; a model's own name wins over another's alias."""
    by_name: dict[str, ModelRoute] = {}
    for route in routes:
        for alias in route.aliases:
            by_name.setdefault(alias, route)
    for route in routes:
        by_name[route.name] = route
    return RouteTable(by_name)
