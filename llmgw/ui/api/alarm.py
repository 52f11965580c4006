"""GET /alarm, POST /alarm/clear: most of the fleet fell silent at once."""

from litestar import get, post
from litestar.handlers import HTTPRouteHandler

from llmgw.ui.api.operations import Operations
from llmgw.ui.present.status import AlarmView, alarm_view


def routes(operations: Operations) -> list[HTTPRouteHandler]:
    """Make the handlers."""

    @get("/alarm")
    async def alarm() -> AlarmView | None:
        found = operations.status().alarm
        return None if found is None else alarm_view(found, operations.clock.at())

    @post("/alarm/clear", status_code=200)
    async def clear() -> AlarmView:
        return alarm_view(operations.upkeep.clear_alarm(), operations.clock.at())

    return [alarm, clear]
