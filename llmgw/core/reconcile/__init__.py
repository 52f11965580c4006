"""From what is wanted and what is observed to what is to be done, each with its because.

The unit is a copy: one generation of a replica, with the engine process of each of its ranks (fleet/copies.py).

Rules, in their order:

1. A copy lives and ends whole. When one rank has failed, is ending, or is nowhere (its node is lost, or came back
   without it), all others end too, rank 0 first, and the copy is replaced only when nothing of it is left. The failed
   rank stays to be looked at; the failure counts once, whatever became of the other ranks.
2. Of two copies of one replica (a partition may have made two) the later generation stays. A ready older one is
   stopped only when the later is ready too, on nodes that have spoken since the older one was back, and outlives a
   later one that failed.
3. A copy whose model or profile left the catalog is stopped, and one that has ended is to be forgotten. One whose
   profile was edited is stale, and stays. One that this server's database never knew is left alone (strangers.py).
4. A replica that is to be restarted is stopped, its place is kept until it has ended, and it comes back under its name.
5. What is on a node that is drained, and what is rolled, is old: when it is ready it goes only when enough others are
   ready, and at once when it is not. Where a drained one fits on no other node, it goes without a replacement; a roll
   stops then, as it does when a new replica fails.
6. More replicas than wanted: failed ones go first, then those not ready, then those on unreachable nodes, then stale
   ones, then the highest ordinals.
7. A failed replica starts again when its backoff is over, or at once when its profile was edited since.
8. Fewer replicas than wanted: new ones take the ordinals of restarted ones, then the lowest free ones, one placement
   after the other, each seeing the room that the earlier ones left. One that failed last and is nowhere any more waits
   for its backoff all the same.
   All ranks of a replica are started together and with one generation, or none is.

What runs on a lost node counts as gone; on an unreachable one it counts as running, and is told nothing until its
node is back. A copy that is leaving (it was told to stop) counts for nothing and is not told again; while it may have
requests in flight its ordinal is not given to another, for an agent ends the earlier of two that are called the same.
While a copy on several nodes is leaving no other is started in its place: its ranks end one after the other, and what
they hold is what the next one needs.

Generations grow over everything observed: a database that was restored from a backup may give out an epoch twice,
and an agent takes nothing that is older than what it has.

    planning    the rules in their order, model by model
    survivors   rules 1 and 2
    orders      rules 4 and 5 as far as an operator ordered it
    parts       rules 3, 5 and 6
    placing     rules 7 and 8
    gang        what ranks must know of each other
    draft       a plan while it is made
    actions     a plan when it is made
"""

from llmgw.core.reconcile.actions import Action, Plan, Start, Stop
from llmgw.core.reconcile.planning import plan

__all__ = ["Action", "Plan", "Start", "Stop", "plan"]
