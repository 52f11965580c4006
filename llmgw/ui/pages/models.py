"""The list of models, and the page of one with its catalog entry and every node's answer to it."""

from typing import Any

import yaml
from litestar import Request, Response, get, post
from litestar.handlers import HTTPRouteHandler
from litestar.response import Redirect

from llmgw.core.errors import NotFound
from llmgw.core.fleet.catalog import Model
from llmgw.core.fleet.orders import is_stale
from llmgw.core.shape import nearest
from llmgw.ui.api.named import named
from llmgw.ui.api.operations import Operations
from llmgw.ui.pages.door import read_form
from llmgw.ui.pages.site import Site
from llmgw.ui.pages.statuses import models_of
from llmgw.ui.picture import Fragment, Shown, unless
from llmgw.ui.present.model_page import ModelHead, answer_rows, catalog_entry, need_rows, verdicts
from llmgw.ui.present.model_rows import model_rows
from llmgw.ui.present.replica_rows import replica_rows


def look(operations: Operations, _name: str) -> Shown:
    """Look at every model."""
    rows = model_rows(models_of(operations), operations.fleet())
    return Shown(
        title="Models",
        parts=(Fragment("no-models", "parts/empty.html", unless(rows, "The catalog is empty.")),),
        lists={
            "model-rows": tuple(Fragment(f"model:{row.name}", "parts/model_row.html", row) for row in rows)
        },
    )


def look_at_one(operations: Operations, name: str) -> Shown:
    """Look at one model."""
    clock, fleet, orders = operations.clock, operations.fleet(), operations.upkeep.orders
    model = _find(operations, name)
    explanation = operations.explain(name)
    answers = answer_rows(explanation)
    rows = replica_rows(operations.catalog(), fleet, now=clock.now(), at=clock.at(), orders=orders)
    replicas = tuple(row for row in rows if row.model == name)
    roll = orders.rolls.get(name)
    head = ModelHead(
        row=model_rows(models_of(operations, only=name), fleet)[0],
        stale=sum(
            is_stale(model, shard)
            for node in fleet.nodes.values()
            for shard in node.shards.values()
            if shard.model == name
        ),
        rolling=roll is not None and roll.is_rolling(),
    )
    return Shown(
        title=name,
        parts=(
            Fragment("head", "parts/model_head.html", head),
            Fragment("entry", "parts/entry.html", yaml.safe_dump(catalog_entry(model), sort_keys=False)),
            Fragment("verdicts", "parts/verdicts.html", verdicts(explanation, answers)),
            Fragment("needs", "parts/needs.html", need_rows(explanation)),
            Fragment("no-replicas", "parts/empty.html", unless(replicas, "No replica of it is anywhere.")),
            Fragment("no-answers", "parts/empty.html", unless(answers, "No node has registered yet.")),
        ),
        lists={
            "replica-rows": tuple(
                Fragment(f"replica:{row.key}", "parts/replica_row.html", row) for row in replicas
            ),
            "answer-rows": tuple(
                Fragment(f"answer:{row.key}", "parts/answer_row.html", row) for row in answers
            ),
        },
    )


def routes(site: Site) -> list[HTTPRouteHandler]:
    """Make the handlers."""

    @get("/models")
    async def models(request: Request[Any, Any, Any]) -> Response[str]:
        return await site.page(request, "models.html", "models")

    @get("/models/{target:path}")
    async def model(request: Request[Any, Any, Any]) -> Response[str]:
        name = str(request.path_params["target"]).removeprefix("/")
        return await site.page(request, "model.html", "model", name)

    @post("/models/{target:path}")
    async def roll(request: Request[Any, Any, Any]) -> Redirect:
        name, form = named(request, "/roll"), await read_form(request)
        site.operations.roll(name, every=form.get("which") == "all")
        return site.see("models", name)

    return [models, model, roll]


def _find(operations: Operations, name: str) -> Model:
    catalog = operations.catalog()
    model = catalog.model(name)
    if model is None:
        names = [model.name for model in catalog.models]
        raise NotFound(
            f"no model is called {name!r}; {nearest(name, names) if names else 'the catalog is empty'}"
        )
    return model
