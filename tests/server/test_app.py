import pytest

from llmgw.server.app import client_surface


class _Recorder:
    """An application that only notes what it was asked."""

    def __init__(self) -> None:
        self.asked: list[str] = []

    async def __call__(self, scope, receive, send) -> None:
        self.asked.append(f"{scope['type']} {scope.get('path', '')}".strip())


@pytest.mark.parametrize(
    ("scope", "routed"),
    [
        ({"type": "http", "path": "/v1"}, True),
        ({"type": "http", "path": "/v1/"}, True),
        ({"type": "http", "path": "/v1/models"}, True),
        ({"type": "http", "path": "/v12"}, False),
        ({"type": "http", "path": "/api/v1/status"}, False),
        ({"type": "http", "path": "/"}, False),
        ({"type": "websocket", "path": "/v1/x"}, False),
        ({"type": "lifespan"}, False),
    ],
)
async def test_requests_below_v1_are_the_routers_and_all_else_the_other_applications(
    scope: dict, routed: bool
) -> None:
    router, rest = _Recorder(), _Recorder()

    await client_surface(router, rest)(scope, None, None)

    assert (len(router.asked), len(rest.asked)) == (int(routed), int(not routed))
