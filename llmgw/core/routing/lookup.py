"""Find which model answers a request: the one asked for, one that may stand in for it, or why none does."""

import math
from collections.abc import Callable, Iterable

from llmgw.core.routing.openai import Refused, shown
from llmgw.core.routing.table import Endpoint, ModelRoute, RouteTable

MayUse = Callable[[str], bool]
"""Tells whether the key may ask for the model of this name."""


def find_model(table: RouteTable, name: str, may_use: MayUse) -> ModelRoute | Refused:
    """Find the model that a client names, by its own name or an alias."""
    route = table.by_name.get(name)
    if route is None:
        message = f"model {shown(name)} does not exist here; GET /v1/models lists the models that do"
        return Refused(status=404, code="model_not_found", param="model", message=message)
    if not may_use(route.name):
        message = (
            f"this API key may not use model {route.name!r}; ask for one that allows it, "
            "or use a model that GET /v1/models lists"
        )
        return Refused(
            status=403, type="permission_error", code="model_not_allowed", param="model", message=message
        )
    return route


def answering(route: ModelRoute, task: str) -> tuple[Endpoint, ...]:
    """List the model's endpoints that answer `/v1/{task}`."""
    return tuple(endpoint for endpoint in route.endpoints if task in endpoint.tasks)


def find_answerer(table: RouteTable, route: ModelRoute, task: str, may_use: MayUse) -> ModelRoute | Refused:
    """Find the model whose endpoints answer a request for `route`.

    1. The model itself, when one of its endpoints answers the task.
    2. When it has endpoints and none answers the task, waiting would change nothing: refused with 400.
    3. When it has none, the first of its fallbacks that answers the task and that the key may use.
    4. Else refused with 503, with why the model has no endpoint and why its fallbacks did not help.
    """
    if answering(route, task):
        return route
    if route.endpoints:
        return _cannot(route, task)
    turned_down = []
    for name in route.fallback:
        stand_in = table.by_name.get(name)
        reason = _why_no_stand_in(stand_in, task, may_use)
        if stand_in is not None and reason is None:
            return stand_in
        turned_down.append(f"fallback {name!r} {reason}")
    return _not_ready(route, turned_down)


def _why_no_stand_in(route: ModelRoute | None, task: str, may_use: MayUse) -> str | None:
    if route is None:
        return "is not in the catalog"
    if not may_use(route.name):
        return "is not allowed to this API key"
    if not route.endpoints:
        return "has no replica ready either"
    return None if answering(route, task) else f"does not answer /v1/{task}"


def _cannot(route: ModelRoute, task: str) -> Refused:
    served_by = " and ".join(_each(f"{e.engine} (profile {e.profile!r})" for e in route.endpoints))
    answers = ", ".join(_each(each for e in route.endpoints for each in e.tasks)) or "nothing under /v1"
    message = (
        f"model {route.name!r} is served by {served_by} which does not answer /v1/{task} when started so; "
        f"it answers: {answers}. Ask for one of these, or give the model a profile of its own whose engine is "
        f"started to answer /v1/{task}"
    )
    return Refused(status=400, code="endpoint_not_served", param="model", message=message)


def _each(texts: Iterable[str]) -> list[str]:
    return list(dict.fromkeys(texts))


def _not_ready(route: ModelRoute, turned_down: list[str]) -> Refused:
    why = "; ".join([route.why_not or "no replica is ready", *turned_down])
    return Refused(
        status=503,
        type="server_error",
        code="model_not_ready",
        message=f"model {route.name!r} cannot be served now: {why}; try again in {math.ceil(route.retry_after_s)} s",
        retry_after_s=route.retry_after_s,
    )
