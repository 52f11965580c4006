"""What the control plane is told of requests under way."""

from fakes.engine import Act, FakeEngine, plain
from fakes.gateway import Gateway, endpoint, until
from fakes.http_client import post

from llmgw.core.ids import Generation
from llmgw.core.routing.table import ModelRoute
from llmgw.server.plane import RouterLoad


async def test_a_copy_of_a_replica_is_counted_without_its_successor() -> None:
    old, new = Generation(1, 1), Generation(1, 2)
    script = [Act.HOLD, plain(b"{}")]
    async with (
        FakeEngine(script) as before,
        FakeEngine(script) as after,
        Gateway() as gateway,
        gateway.client() as first,
        gateway.client() as second,
        gateway.client() as third,
    ):
        gateway.serve(ModelRoute(name="gemma", endpoints=(endpoint(before, generation=old),)))
        await first.send(post())
        await until(lambda: before.held == 1)
        gateway.serve(ModelRoute(name="gemma", endpoints=(endpoint(after, generation=new),)))
        await second.send(post())
        await third.send(post())
        await until(lambda: after.held == 2)
        load = RouterLoad(gateway.router)
        counts = [load.count("gemma.0", generation) for generation in (old, new, Generation(2, 1))]
        before.released.set()
        await first.read_answer()
        left = [load.count("gemma.0", generation) for generation in (old, new)]

    assert counts == [1, 2, 0]
    assert left == [0, 2]
