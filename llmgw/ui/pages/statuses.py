"""The whole at a glance and its models, looked at once for a page that shows both."""

from llmgw.core.fleet.catalog import Catalog
from llmgw.ui.api.operations import Operations
from llmgw.ui.present.models import ModelView, model_views
from llmgw.ui.present.status import StatusView, status_view


def models_of(operations: Operations, *, only: str | None = None) -> tuple[ModelView, ...]:
    """Look at every model, or at the `only` one of this name."""
    clock, catalog = operations.clock, operations.catalog()
    if only is not None:
        catalog = Catalog(models=tuple(model for model in catalog.models if model.name == only))
    return model_views(
        catalog,
        operations.fleet(),
        hold=operations.status().hold,
        now=clock.now(),
        at=clock.at(),
        rolls=operations.upkeep.orders.rolls,
        refused=operations.refused(),
    )


def status_of(operations: Operations) -> tuple[StatusView, tuple[ModelView, ...]]:
    """Look at the whole, and at every model."""
    own, clock, models = operations.status(), operations.clock, models_of(operations)
    status = status_view(
        operations.catalog(),
        operations.fleet(),
        version=own.version,
        epoch=own.epoch,
        started_at=own.started_at,
        hold=own.hold,
        alarm=own.alarm,
        absent=own.absent,
        strangers=own.strangers,
        catalog_problem=own.catalog_problem,
        models=models,
        now=clock.now(),
        at=clock.at(),
    )
    return status, models
