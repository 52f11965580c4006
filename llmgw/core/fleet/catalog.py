"""What an operator wants to run: models and profiles, their check, their fingerprint and what an apply changes."""

import hashlib
from collections.abc import Iterable

import msgspec

from llmgw.core.errors import Problem
from llmgw.core.fleet.weights import read_source
from llmgw.core.ids import name_problem
from llmgw.core.shape import nearest, read_struct

MOST_GIB = 2**20
"""More memory or disk than any one node has, GiB."""


class Profile(msgspec.Struct, frozen=True, kw_only=True):
    """One way to run a model. It travels in StartShard, so a field that an older agent does not know is no fault.

    Attributes:
        name: its name within the model.
        engine: which engine runs it, e.g. "llama.cpp".
        weights: where the weights are, e.g. "file:///srv/models/gemma.gguf" or "hf://org/repo/model.gguf".
        context: tokens of context for all slots together; None takes the engine's own choice.
        parallel: how many requests the engine serves at once; None takes the engine's default.
        gpus: how many GPUs one replica needs on each of its nodes.
        gpu_class: the kind of GPU, as nodes report it ("h100-80gb-hbm3") or its beginning ("h100"); None takes any.
        min_gpu_memory_gb: memory it needs on each GPU, GiB, which it may share with others; None asks the engine.
        min_memory_gb: main memory it needs, GiB; estimated from the file where None, else it asks for nothing.
        min_disk_gb: room its weights need where they are still to be fetched, GiB; None asks for nothing.
        pool: the pool its nodes must be of; None takes any.
        node_selector: labels that a node must carry.
        nodes: how many nodes one replica spans, one engine process on each.
        fabric: the fast network that its nodes must be attached to; "any" takes one that they all share.
        args: handed to the engine as they are.
        env: added to the engine's environment.
    """

    name: str
    engine: str
    weights: str
    context: int | None = None
    parallel: int | None = None
    gpus: int = 0
    gpu_class: str | None = None
    min_gpu_memory_gb: float | None = None
    min_memory_gb: float | None = None
    min_disk_gb: float | None = None
    pool: str | None = None
    node_selector: dict[str, str] = {}
    nodes: int = 1
    fabric: str | None = None
    args: tuple[str, ...] = ()
    env: dict[str, str] = {}

    def fingerprint(self) -> str:
        """Hash all that changes how the engine runs (not where it may run): 16 hex digits, the same everywhere."""
        runs = [self.engine, self.weights, self.context, self.parallel, self.gpus, self.args, self.env]
        # Only where it says something: engines that were started before there was the word keep their fingerprint.
        if self.nodes != 1:
            runs.append(self.nodes)
        return hashlib.sha256(msgspec.json.encode(runs, order="deterministic")).hexdigest()[:16]


class Model(msgspec.Struct, frozen=True, kw_only=True):
    """A name that clients ask for.

    Attributes:
        name: what clients write as `model`.
        aliases: other names for it.
        replicas: how many copies should run.
        fallback: models that may answer in its place, tried in order, when it has no endpoint.
        profiles: ways to run it, tried in order.
    """

    name: str
    aliases: tuple[str, ...] = ()
    replicas: int = 1
    fallback: tuple[str, ...] = ()
    profiles: tuple[Profile, ...]

    def profile_of(self, fingerprint: str | None) -> Profile | None:
        """Find the profile that a running copy was started from, or None when the catalog no longer has it."""
        return next((p for p in self.profiles if p.fingerprint() == fingerprint), None)


class Catalog(msgspec.Struct, frozen=True, kw_only=True):
    """All models, as one value; names and aliases are unique."""

    models: tuple[Model, ...] = ()

    def model(self, name: str) -> Model | None:
        """Find a model by its name (not by an alias)."""
        return next((m for m in self.models if m.name == name), None)


class Change(msgspec.Struct, frozen=True, kw_only=True):
    """What an apply does to the stored catalog, by model name.

    Attributes:
        kept: models that are stored but not in the file; only a prune removes them.
        removed: models that the prune takes away.
    """

    created: tuple[str, ...] = ()
    changed: tuple[str, ...] = ()
    unchanged: tuple[str, ...] = ()
    kept: tuple[str, ...] = ()
    removed: tuple[str, ...] = ()


def read_catalog(
    data: object, engines: Iterable[str] | None = None, *, beside: Catalog | None = None
) -> tuple[Catalog | None, list[Problem]]:
    """Read and check a catalog.

    Args:
        data: plain data, from YAML or JSON.
        engines: the engines this build knows; None leaves their names unchecked.
        beside: models that stay stored unless `data` has one of their name; their names are taken, and fallbacks
            may name them.

    Returns:
        The catalog and no problem, or None and every problem found; paths lead into `data`.
    """
    catalog, problems = read_struct(data, Catalog)
    if catalog is None:
        return None, problems
    given = {model.name for model in catalog.models}
    staying = () if beside is None else tuple(m for m in beside.models if m.name not in given)
    problems = [
        *_name_problems(catalog, staying),
        *_model_problems(catalog, None if engines is None else list(engines)),
    ]
    return (None, problems) if problems else (catalog, [])


def check_names(catalog: Catalog) -> list[Problem]:
    """Find names that two models share, and fallbacks that name nobody: what only the whole catalog can tell."""
    return _name_problems(catalog, ())


def _name_problems(catalog: Catalog, staying: tuple[Model, ...]) -> list[Problem]:
    taken = {
        name: f"the stored model {model.name!r}" for model in staying for name in (model.name, *model.aliases)
    }
    problems = _twice_used(catalog, taken)
    for i, model in enumerate(catalog.models):
        for j, other in enumerate(model.fallback):
            path = ("models", i, "fallback", j)
            if other == model.name:
                problems.append(Problem(path, f"model {other!r} cannot stand in for itself; name another"))
            elif other not in taken:
                problems.append(Problem(path, f"no model is called {other!r}; {nearest(other, list(taken))}"))
    return problems + _orphaned_fallbacks(staying, taken)


def _twice_used(catalog: Catalog, taken: dict[str, str]) -> list[Problem]:
    """Find names that are taken already; those of `catalog` are added to `taken`."""
    problems = []
    for i, model in enumerate(catalog.models):
        places: list[tuple[tuple[str | int, ...], str]] = [(("models", i, "name"), model.name)]
        places += [(("models", i, "aliases", j), alias) for j, alias in enumerate(model.aliases)]
        for path, name in places:
            if name in taken:
                message = f"the name {name!r} is used twice, first by {taken[name]}; give each its own"
                problems.append(Problem(path, message))
            taken.setdefault(name, f"model {model.name!r}")
    return problems


def _orphaned_fallbacks(staying: tuple[Model, ...], taken: dict[str, str]) -> list[Problem]:
    return [
        Problem(
            (),
            f"the stored model {model.name!r}, which is not in this file, falls back to {other!r}, "
            f"and no model would be called so any more; change {model.name!r} too",
        )
        for model in staying
        for other in model.fallback
        if other not in taken
    ]


def _model_problems(catalog: Catalog, engines: list[str] | None) -> list[Problem]:
    problems = []
    for i, model in enumerate(catalog.models):
        at: tuple[str | int, ...] = ("models", i)
        for path, name in [((*at, "name"), model.name)] + [
            ((*at, "aliases", j), alias) for j, alias in enumerate(model.aliases)
        ]:
            if wrong := name_problem("model", name):
                problems.append(Problem(path, wrong))
        if not 0 <= model.replicas <= 1000:
            problems.append(Problem((*at, "replicas"), f"wanted 0 to 1000, found {model.replicas}"))
        if not model.profiles:
            problems.append(Problem((*at, "profiles"), "a model needs at least one profile, found none"))
        seen: set[str] = set()
        for j, profile in enumerate(model.profiles):
            if profile.name in seen:
                problems.append(
                    Problem(
                        (*at, "profiles", j, "name"), f"two profiles are called {profile.name!r}; rename one"
                    )
                )
            seen.add(profile.name)
            problems += _profile_problems(profile, (*at, "profiles", j), engines)
    return problems


def _profile_problems(
    profile: Profile, at: tuple[str | int, ...], engines: list[str] | None
) -> list[Problem]:
    problems = []
    if wrong := name_problem("profile", profile.name):
        problems.append(Problem((*at, "name"), wrong))
    if engines is not None and profile.engine not in engines:
        problems.append(
            Problem(
                (*at, "engine"), f"no engine is called {profile.engine!r}; {nearest(profile.engine, engines)}"
            )
        )
    source = read_source(profile.weights)
    if isinstance(source, str):
        problems.append(Problem((*at, "weights"), source))
    for name, value in profile.env.items():
        if not name or "=" in name or "\0" in name + value:
            wanted = "wanted a variable's name without = and NUL, and a value without NUL"
            problems.append(Problem((*at, "env", name), f"{wanted}, found {name!r}: {value!r}"))
    for key, least, most in (("context", 0, 2**26), ("parallel", 1, 1024), ("gpus", 0, 64), ("nodes", 1, 64)):
        value = getattr(profile, key)
        if value is not None and not least <= value <= most:
            problems.append(Problem((*at, key), f"wanted {least} to {most}, found {value}"))
    for key in ("min_memory_gb", "min_gpu_memory_gb", "min_disk_gb"):
        gib = getattr(profile, key)
        if gib is not None and not 0 <= gib <= MOST_GIB:
            problems.append(Problem((*at, key), f"wanted 0 to {MOST_GIB} GiB, found {gib:.10g}"))
    return problems + _place_problems(profile, at)


def _place_problems(profile: Profile, at: tuple[str | int, ...]) -> list[Problem]:
    """Find what can never be placed as it is written."""
    problems = []
    for key in ("gpu_class", "min_gpu_memory_gb"):
        if getattr(profile, key) is not None and profile.gpus == 0:
            message = "asks something of GPUs, and the profile has gpus: 0; set gpus, or leave it out"
            problems.append(Problem((*at, key), message))
    for key in ("gpu_class", "pool", "fabric"):
        if getattr(profile, key) == "":
            problems.append(
                Problem((*at, key), "wanted a name, found an empty text; leave it out to take any")
            )
    return problems


def compare(stored: Catalog, wanted: Catalog, *, prune: bool) -> Change:
    """Say what applying `wanted` over `stored` does; apply alone never deletes."""
    have = {m.name: m for m in stored.models}
    want = {m.name: m for m in wanted.models}
    gone = tuple(name for name in have if name not in want)
    return Change(
        created=tuple(n for n in want if n not in have),
        changed=tuple(n for n in want if n in have and have[n] != want[n]),
        unchanged=tuple(n for n in want if n in have and have[n] == want[n]),
        kept=() if prune else gone,
        removed=gone if prune else (),
    )


def merge(stored: Catalog, wanted: Catalog, *, prune: bool) -> Catalog:
    """Make the catalog that an apply leaves behind, models in the order of their names."""
    models = {} if prune else {m.name: m for m in stored.models}
    models |= {m.name: m for m in wanted.models}
    return Catalog(models=tuple(models[name] for name in sorted(models)))
