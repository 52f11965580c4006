"""What a profile makes of llama.cpp: its arguments read as the engine reads them, the last one of a kind winning.

Facts were read from llama.cpp b11434 (common/arg.cpp, tools/server/server.cpp, src/llama-context.cpp).
"""

from collections.abc import Iterator
from itertools import pairwise

import msgspec

from llmgw.core.fleet.catalog import Profile
from llmgw.core.fleet.model_shape import ModelShape
from llmgw.engines.gguf import BLOCKS

DEFAULT_PARALLEL = 4
"""Slots that the engine makes when nobody says how many; they then share one cache of keys."""
CACHE_RAM_MIB = 512
"""Room for earlier prompts that a profile has when its arguments give it no other."""

EMBEDDING = frozenset({"--embedding", "--embeddings"})
RERANKING = frozenset({"--rerank", "--reranking"})
PARALLEL = frozenset({"-np", "--parallel"})

# Types that keys and values can be kept in, by their numbers in GGUF.
_CACHE_TYPES = {
    "f32": 0, "f16": 1, "q4_0": 2, "q4_1": 3, "q5_0": 6, "q5_1": 7, "q8_0": 8, "iq4_nl": 20, "bf16": 30,
}  # fmt: skip
_PAD = 256
# Given for parts of the experts, or of tensors by name: which of them stay in main memory then, only names tell.
_KEPT_BACK = frozenset({"-ot", "--override-tensor", "-cmoe", "--cpu-moe", "-ncmoe", "--n-cpu-moe"})


class Setting(msgspec.Struct, frozen=True, kw_only=True):
    """How the engine is set up for a model.

    Attributes:
        context: tokens of all slots together, padded as the engine pads them.
        slot_context: tokens that one slot can hold.
        slots: requests at once.
        unified: the slots share one cache of keys.
        whole_windows: layers that look at a window keep everything nevertheless.
        key_block: numbers in a block of keys and bytes of it; `value_block` of values.
        batch: tokens that are taken at once; `ubatch` those that are computed at once.
        flash: attention is computed without its whole matrix.
        outputs: tokens at once whose results are wanted.
        cache_bytes: room for earlier prompts; None when it is without bound.
        checkpoints: states that are kept of each slot, where the model needs them, at most.
        gpu_layers: layers that go to GPUs, the one that makes tokens included; None when all do.
        split: how they go to several: none, layer, row or tensor.
        keys_on_gpu: the keys go where their layers are.
        kept_back: parts of layers stay in main memory.
        fit_bytes: memory that the engine leaves free on each GPU; it shrinks itself to do so.
    """

    context: int
    slot_context: int
    slots: int
    unified: bool
    whole_windows: bool
    key_block: tuple[int, int]
    value_block: tuple[int, int]
    batch: int
    ubatch: int
    flash: bool
    outputs: int
    cache_bytes: int | None
    checkpoints: int
    gpu_layers: int | None
    split: str
    keys_on_gpu: bool
    kept_back: bool
    fit_bytes: int


def flag(given: str) -> str:
    """Spell an argument as the engine compares it: it takes --cache_ram for --cache-ram."""
    name = given.partition("=")[0]
    return name.replace("_", "-") if name.startswith("--") else name


def values_of(args: tuple[str, ...], flags: frozenset[str]) -> Iterator[str]:
    """Yield the values given to any of `flags`, in their order."""
    for given, value in pairwise(args):
        if flag(given) in flags:
            yield value


def slots_of(profile: Profile) -> int:
    """Say how many requests it serves at once: as arguments say, else the profile, else the engine."""
    return _slots(profile)[0]


def setting_of(profile: Profile, shape: ModelShape) -> Setting:
    """Read how the engine is set up for a model by its profile; what makes no sense is left at its default."""
    given = _Given(profile.args)
    slots, automatic = _slots(profile)
    unified = given.switch({"-kvu", "--kv-unified"}, {"-no-kvu", "--no-kv-unified"}, otherwise=automatic)
    context, slot_context = _contexts(given, profile, shape, slots, unified)
    batch = min(given.number(2048, "-b", "--batch-size"), context)
    ubatch = min(given.number(512, "-ub", "--ubatch-size") or batch, batch)
    vectors = any(flag(one) in EMBEDDING | RERANKING for one in profile.args)
    cache = given.number(CACHE_RAM_MIB, "-cram", "--cache-ram")
    fit = given.word("1024", "-fitt", "--fit-target").partition(",")[0]
    return Setting(
        context=context,
        slot_context=slot_context,
        slots=slots,
        unified=unified,
        whole_windows=given.switch({"--swa-full"}, set(), otherwise=False),
        key_block=_block(given.word("f16", "-ctk", "--cache-type-k")),
        value_block=_block(given.word("f16", "-ctv", "--cache-type-v")),
        batch=ubatch if vectors else batch,
        ubatch=ubatch,
        flash=given.word("auto", "-fa", "--flash-attn") != "off",
        outputs=ubatch if vectors else slots,
        cache_bytes=None if cache < 0 else cache * 1024**2,
        checkpoints=max(0, given.number(32, "-ctxcp", "--ctx-checkpoints", "--swa-checkpoints")),
        gpu_layers=_gpu_layers(given.word("auto", "-ngl", "--gpu-layers", "--n-gpu-layers")),
        split=given.word("layer", "-sm", "--split-mode"),
        keys_on_gpu=not given.has("-nkvo", "--no-kv-offload"),
        kept_back=given.has(*_KEPT_BACK),
        fit_bytes=_fit_bytes(given.word("on", "-fit", "--fit"), fit),
    )


def row_bytes(width: int, block: tuple[int, int]) -> int:
    """Return the bytes of a row of numbers."""
    numbers, size = block
    return -(-width // numbers) * size


def padded(tokens: int) -> int:
    """Round up as the engine rounds contexts."""
    return -(-tokens // _PAD) * _PAD


class _Given:
    """Arguments, asked for by their names."""

    def __init__(self, args: tuple[str, ...]) -> None:
        self._args = args

    def has(self, *names: str) -> bool:
        return any(flag(one) in names for one in self._args)

    def word(self, otherwise: str, *names: str) -> str:
        return ([otherwise, *values_of(self._args, frozenset(names))])[-1]

    def number(self, otherwise: int, *names: str) -> int:
        for word in reversed(list(values_of(self._args, frozenset(names)))):
            if word.removeprefix("-").isdecimal() and len(word) <= 10:
                return int(word)
        return otherwise

    def switch(self, on: set[str], off: set[str], *, otherwise: bool) -> bool:
        for one in reversed(self._args):
            if flag(one) in on | off:
                return flag(one) in on
        return otherwise


def _slots(profile: Profile) -> tuple[int, bool]:
    """Return how many slots there are, and whether the engine chose that."""
    slots, automatic = profile.parallel or DEFAULT_PARALLEL, profile.parallel is None
    for value in values_of(profile.args, PARALLEL):
        if value.isdecimal():
            slots, automatic = int(value) or slots, False
        elif value == "-1":
            slots, automatic = DEFAULT_PARALLEL, True
    return slots, automatic


def _contexts(
    given: _Given, profile: Profile, shape: ModelShape, slots: int, unified: bool
) -> tuple[int, int]:
    """Return the tokens of all slots and those of one. Where nobody says, the engine takes all the model can."""
    context = given.number(profile.context or 0, "-c", "--ctx-size")
    if context <= 0:
        each = given.number(0, "--kv-unified-per-slot") or shape.context or 4096
        context = each * slots if not unified or given.has("--kv-unified-per-slot") else each
    context = padded(context)
    if unified:
        return context, context
    slot_context = max(_PAD, padded(context // slots))
    return slot_context * slots, slot_context


def _block(word: str) -> tuple[int, int]:
    return BLOCKS[_CACHE_TYPES.get(word, _CACHE_TYPES["f16"])]


def _gpu_layers(word: str) -> int | None:
    return int(word) if word.isdecimal() else None


def _fit_bytes(fit: str, target: str) -> int:
    return int(target) * 1024**2 if fit != "off" and target.isdecimal() else 0
