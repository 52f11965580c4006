"""How much memory llama.cpp needs for a profile, reckoned from the shape of the model before anything is started.

What is counted, for one engine process. Facts were read from llama.cpp b11434; the figures in brackets were then
measured on llama-server b11434 without a GPU (bench/memory does it again).

1. Weights: the bytes of the files. Mapped or read makes no difference: mapped ones lie in the page cache, and a
   machine that has no room for them reads them again for every token.
2. Keys and values: of each layer that keeps some, cells times the widths of its key and value (llama-kv-cache.cpp).
   A layer that looks at a window has cells for the window and a batch only (llama-kv-cache-iswa.cpp); latent
   attention keeps no values; a recurrent layer keeps a state of each slot instead (llama-hparams.cpp).
3. The compute buffer: what is alive at the widest place of a layer for the tokens computed at once. [For the shapes
   of Llama 8B and 70B, Mixtral, Qwen3 and Gemma, with contexts of 4k to 128k: exactly what the engine reserves but
   for rounding.]
4. Results: one row of the vocabulary for each slot, in the output buffer and in each slot's sampler.
5. Checkpoints of slots: a model that cannot forget single tokens (windows, states) keeps its state near the end of a
   prompt and at turns of the talk (tools/server/server-context.cpp). Counted are those of one prompt that fills the
   context: two, and one for each 8,192 tokens.
6. The vocabulary as the engine keeps it [up to 160 bytes a token], what each token of context costs beside [160
   bytes], and the program itself [19 MiB, of which 11 are its file].
7. The kernel's tables of all these pages, and two in a hundred for what is not counted: alignment, fragments of the
   allocator, buffers of threads, other builds.

That much, `estimated_bytes`, is what it holds when one prompt has filled the context of every slot. What it may keep
of earlier prompts (--cache-ram) comes to it only in the course of time, and is `spare_bytes` of the need.

With GPUs the layers are spread evenly over them, as the engine does with GPUs that are alike; on each, the driver's
context and what the engine leaves free (--fit-target) are added. This part is reckoned from the source and has not
been measured.

Not counted, because a profile does not tell: models beside the model (--model-draft, --mmproj, --lora).
"""

from math import ceil

import msgspec

from llmgw.core.fleet.catalog import Profile
from llmgw.core.fleet.model_shape import ModelShape
from llmgw.core.placement.need import Need, Said
from llmgw.core.units import MIB
from llmgw.engines.llamacpp_args import CACHE_RAM_MIB, Setting, padded, row_bytes, setting_of

_F32, _F16 = 4, 2
_PROGRAM = 24 * MIB
_SLOT = MIB
_TOKEN_OF_CONTEXT = 192
_TOKEN_OF_VOCABULARY = 160
_MERGE = 128
# A sampler sorts the whole vocabulary: number, logit and probability of each token, and a copy of the logits.
_SAMPLED_TOKEN = 16
_CHECKPOINT_EVERY = 8192
_GPU_CONTEXT = 512 * MIB
# The kernel's tables take eight bytes for a page of 4 KiB.
_PAGE_TABLES = 1 / 512
_UNCOUNTED = 1 / 50
_MOST = 2**52
# Of the host, for the driver's libraries and its context.
_GPU_PROGRAM = 512 * MIB


class Parts(msgspec.Struct, frozen=True, kw_only=True):
    """What an estimate is made of, in bytes, as if all of it were in one memory."""

    weights: int
    keys: int
    compute: int
    results: int
    checkpoints: int
    program: int

    def total(self) -> int:
        """Add it up."""
        return sum(getattr(self, name) for name in self.__struct_fields__)


def need_of(profile: Profile, shape: ModelShape | None, weights_bytes: int | None) -> Need:
    """Reckon what a profile needs.

    Args:
        shape: None when no header was read: then only what is certain is counted, the weights and the program.
        weights_bytes: of all files; None when nobody knows, then the header's tensors count if they are all.
    """
    weights = weights_bytes
    if weights is None and shape is not None and shape.parts == 1:
        weights = shape.tensor_bytes
    if weights is None:
        return Need()
    if shape is None:
        return _bare(profile, weights)
    setting = setting_of(profile, shape)
    parts = parts_of(setting, shape, weights)
    if profile.gpus:
        return _with_gpus(profile, setting, shape, parts)
    return _need(with_margin(parts.total()), _late(parts), setting)


def parts_of(setting: Setting, shape: ModelShape, weights: int) -> Parts:
    """Reckon the parts of an estimate."""
    return Parts(
        weights=weights,
        keys=keys_bytes(setting, shape),
        compute=compute_bytes(setting, shape),
        results=_results_bytes(setting, shape),
        checkpoints=_checkpoints_bytes(setting, shape),
        program=_program_bytes(setting, shape),
    )


def with_margin(counted: float) -> int:
    """Add what comes to everything that is counted; arguments that make no sense make no number without end."""
    return ceil(min(counted, _MOST) * (1 + _PAGE_TABLES + _UNCOUNTED))


def _late(parts: Parts) -> int:
    """Count what is not held yet when the engine is ready: weights are read by then, and keys filled with zeros."""
    return parts.compute + parts.results + parts.checkpoints


def _need(host: int, late: int, setting: Setting, gpu: int | None = None) -> Need:
    # A cache without bound takes what there is, which no number says; it is counted as the engine's own default.
    spare = 8192 * MIB if setting.cache_bytes is None else min(setting.cache_bytes, _MOST)
    return Need(
        memory_bytes=host + spare,
        spare_bytes=spare,
        gpu_bytes=gpu,
        said=Said.ESTIMATED,
        estimated_bytes=host,
        late_bytes=late,
    )


def _bare(profile: Profile, weights: int) -> Need:
    if profile.gpus:
        return Need()
    estimated, spare = with_margin(weights + _PROGRAM), CACHE_RAM_MIB * MIB
    return Need(memory_bytes=estimated + spare, spare_bytes=spare, estimated_bytes=estimated)


# keys and values


def keys_bytes(setting: Setting, shape: ModelShape) -> int:
    """Reckon what the cache of keys and values takes, states of recurrent layers included."""
    streams = 1 if setting.unified else setting.slots
    total = 0
    for layer in range(shape.layers or 0):
        cells = _window_cells(setting, shape) if _is_windowed(shape, layer) else setting.slot_context
        total += _row(setting, shape, layer) * cells * streams
    return total + (shape.recurrent_bytes or 0) * setting.slots


def _row(setting: Setting, shape: ModelShape, layer: int) -> int:
    """Return the bytes that a layer keeps of one token."""
    heads = _kv_heads(shape, layer)
    if heads == 0:
        return 0
    key, value = _widths(shape, layer)
    size = row_bytes(heads * key, setting.key_block)
    if shape.latent_rank is None:
        size += row_bytes(heads * value, setting.value_block)
    return size + row_bytes(shape.indexer_length or 0, setting.key_block)


def _kv_heads(shape: ModelShape, layer: int) -> int:
    each = shape.kv_heads or (shape.heads or 0,)
    return each[layer] if layer < len(each) else each[-1]


def _widths(shape: ModelShape, layer: int) -> tuple[int, int]:
    key, value = shape.key_length or 0, shape.value_length or 0
    if _is_windowed(shape, layer):
        return shape.key_length_window or key, shape.value_length_window or value
    return shape.latent_rank or key, value


def _is_windowed(shape: ModelShape, layer: int) -> bool:
    layers = shape.window_layers or ()
    return shape.window is not None and layer < len(layers) and layers[layer]


def _window_cells(setting: Setting, shape: ModelShape) -> int:
    if setting.whole_windows:
        return setting.slot_context
    seen = (shape.window or 0) * (setting.slots if setting.unified else 1)
    return padded(min(setting.slot_context, seen + setting.ubatch))


# what is computed


def compute_bytes(setting: Setting, shape: ModelShape) -> int:
    """Reckon the compute buffer, and what the processor's threads work in beside it."""
    vector, heads = shape.embedding or 0, shape.heads or 0
    spread = shape.feed_forward or 4 * vector
    widest_key = max(shape.key_length or 0, shape.value_length or 0, shape.latent_rank or 0)
    queries, used = heads * widest_key, shape.experts_used or 0
    kept = max(shape.kv_heads or (heads,)) * widest_key
    cells = setting.slot_context
    attending = 3 * vector + 3 * queries + 2 * kept + (0 if setting.flash else cells * heads)
    feeding = 3 * spread + 5 * vector
    joining = 2 * used * vector + 6 * vector
    # Numbers alive for each token at the widest place, and the results, which are made at the end of it all.
    alive = max(attending, feeding, joining) * setting.ubatch
    ending = (shape.vocabulary or 0) * setting.outputs + 2 * vector * setting.ubatch
    work = _F16 * max(spread, queries, vector) * setting.ubatch
    return max(alive, ending) * _F32 + _mask_bytes(setting, shape) + work


def _mask_bytes(setting: Setting, shape: ModelShape) -> int:
    cells = setting.slot_context
    if any(shape.window_layers or ()):
        cells += _window_cells(setting, shape)
    return cells * setting.ubatch * (_F16 if setting.flash else _F32)


def _results_bytes(setting: Setting, shape: ModelShape) -> int:
    vocabulary = shape.vocabulary or 0
    output = setting.outputs * max(vocabulary, shape.embedding or 0) * _F32
    return output + setting.slots * (vocabulary * _SAMPLED_TOKEN + _SLOT)


# what is kept beside


def _checkpoints_bytes(setting: Setting, shape: ModelShape) -> int:
    count = min(setting.checkpoints, 2 + setting.slot_context // _CHECKPOINT_EVERY)
    return count * setting.slots * _checkpoint(setting, shape)


def _checkpoint(setting: Setting, shape: ModelShape) -> int:
    """Return the bytes of one state of a slot that could not be had back otherwise."""
    state = shape.recurrent_bytes or 0
    if setting.whole_windows or shape.window is None:
        return state
    layers = [layer for layer in range(shape.layers or 0) if _is_windowed(shape, layer)]
    seen = min(shape.window, setting.slot_context)
    return state + sum(_row(setting, shape, layer) for layer in layers) * seen


def _program_bytes(setting: Setting, shape: ModelShape) -> int:
    tokenizer = (shape.vocabulary or 0) * _TOKEN_OF_VOCABULARY + (shape.merges or 0) * _MERGE
    return _PROGRAM + tokenizer + setting.context * _TOKEN_OF_CONTEXT


# GPUs


def _with_gpus(profile: Profile, setting: Setting, shape: ModelShape, parts: Parts) -> Need:
    layers = shape.layers or 1
    away = layers + 1 if setting.gpu_layers is None else min(setting.gpu_layers, layers + 1)
    entering = shape.input_bytes or 0
    # A model without a table of its own for what it says has that of what it hears once more, on the GPU.
    leaving = shape.output_bytes or entering
    layer = max(0, parts.weights - entering - (shape.output_bytes or 0)) / layers
    # Of the layers that go away the last to be counted is the one that makes tokens.
    repeating = max(0, away - 1)
    on_one = away if setting.split == "none" else -(-away // profile.gpus)
    share = min(1.0, on_one / layers)
    keys = parts.keys if setting.split == "row" else parts.keys * share
    keys_away = keys if setting.keys_on_gpu and away else 0
    copies = 2 if profile.gpus > 1 and setting.split == "layer" else 1
    gpu = on_one * layer + (leaving if away else 0) + keys_away + copies * parts.compute
    # What stays: the table of tokens, layers that do not go, all of them where only names tell which parts go.
    staying = parts.weights if setting.kept_back else entering + (layers - repeating) * layer
    keys_here = parts.keys * (1 - repeating / layers if setting.keys_on_gpu else 1)
    host = (
        staying + keys_here + parts.compute + parts.results + parts.checkpoints + parts.program + _GPU_PROGRAM
    )
    on_each = with_margin(gpu) + _GPU_CONTEXT + setting.fit_bytes
    return _need(with_margin(host), _late(parts), setting, on_each)
