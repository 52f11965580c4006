"""Making a plan: the rules in their order, model by model."""

from collections.abc import Collection, Mapping

from llmgw.core.fleet.catalog import Catalog, Model
from llmgw.core.fleet.copies import Copy
from llmgw.core.fleet.orders import Orders
from llmgw.core.fleet.shards import Phase
from llmgw.core.fleet.snapshot import Fleet
from llmgw.core.placement.need import Need
from llmgw.core.reconcile.actions import Plan
from llmgw.core.reconcile.draft import Draft
from llmgw.core.reconcile.orders import judged_roll, restarted, returning
from llmgw.core.reconcile.parts import let_go, parted
from llmgw.core.reconcile.placing import fill, retry
from llmgw.core.reconcile.survivors import surviving_copies


def plan(
    desired: Catalog,
    fleet: Fleet,
    *,
    epoch: int,
    counter: int,
    now: float,
    orders: Orders | None = None,
    strange: Collection[tuple[str, str]] = (),
    needs: Mapping[str, Need] | None = None,
) -> Plan:
    """Say what to do.

    Args:
        epoch: of this server start; becomes part of new generations.
        counter: the highest generation counter given out in this epoch.
        now: monotonic seconds.
        orders: what an operator ordered beside the catalog; nothing when None.
        strange: node and shard of each engine that is left alone.
        needs: what is known of the needs of profiles beyond the catalog, by their fingerprint.
    """
    draft = Draft(fleet, epoch=epoch, counter=counter, now=now, orders=orders or Orders(), needs=needs or {})
    by_model = surviving_copies(draft, strange)
    for name in sorted(by_model.keys() - {m.name for m in desired.models}):
        for copy in by_model[name]:
            draft.stop(copy, f"model {name!r} left the catalog")
    for model in desired.models:
        _settle(draft, model, by_model.get(model.name, []))
    return draft.finished()


def _settle(draft: Draft, model: Model, copies: list[Copy]) -> None:
    roll = judged_roll(draft, model, copies)
    copies, kept_places = restarted(draft, model, copies)
    wanted = model.replicas - kept_places
    parts = parted(draft, model, copies, wanted, roll)
    for copy in parts.fresh:
        if copy.phase == Phase.FAILED:
            retry(draft, model, copy)
    if len(parts.fresh) == wanted and not parts.drained and not parts.rolled:
        return
    back = returning(draft, model, copies) if len(parts.fresh) < wanted else []
    homeless = fill(draft, model, parts, wanted, roll, back)
    let_go(draft, parts, wanted, homeless)
