"""The whole at a glance and its models, looked at once for a page that shows both."""

from llmgw.ui.api.operations import Operations
from llmgw.ui.present.models import ModelView, model_views
from llmgw.ui.present.status import StatusView, status_view


def status_of(operations: Operations) -> tuple[StatusView, tuple[ModelView, ...]]:
    """Look at the whole, and at every model."""
    own, clock = operations.status(), operations.clock
    catalog, fleet, now, at = operations.catalog(), operations.fleet(), clock.now(), clock.at()
    models = model_views(catalog, fleet, hold=own.hold, now=now, at=at, rolls=operations.upkeep.orders.rolls)
    status = status_view(
        catalog,
        fleet,
        version=own.version,
        epoch=own.epoch,
        started_at=own.started_at,
        hold=own.hold,
        alarm=own.alarm,
        absent=own.absent,
        strangers=own.strangers,
        catalog_problem=own.catalog_problem,
        models=models,
        now=now,
        at=at,
    )
    return status, models
