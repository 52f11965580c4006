"""Make a model's shape from its GGUF header, as llama.cpp reads it.

Facts were read from llama.cpp b11434 (src/models/*.cpp, llama-hparams.cpp): which layers look at a window only, which
of them keep no keys, and what a recurrent layer keeps. A model that is not in the tables here is taken to look at
everything in every layer, which is the most it can need.
"""

import re
from collections.abc import Sequence

from llmgw.core.fleet.model_shape import ModelShape
from llmgw.engines.gguf import MOST_LAYERS, Header, Listed, More, Unreadable, read_header

_MOST = 2**40
"""No number of a real model comes near it; a larger one is not believed."""
_MOST_BYTES = 2**50
_F32 = 4

# Of how many layers in a row one looks at everything, and whether that is the first or the last of them.
_PERIODS = {
    "afmoe": (4, False),
    "cohere2": (4, False),
    "cohere2moe": (4, True),
    "exaone-moe": (4, False),
    "exaone4": (4, False),
    "gemma-embedding": (6, False),
    "gemma2": (2, False),
    "gemma3": (6, False),
    "gemma3n": (5, False),
    "gpt-oss": (2, False),
    "laguna": (4, True),
    "llama4": (4, False),
    "mellum": (4, False),
    "modern-bert": (3, True),
    "muse-glimmer": (4, False),
    "olmo2": (4, False),
    "plamo3": (8, False),
    "smallthinker": (4, True),
}
# Windows that old files of these do not name.
_WINDOWS = {"exaone-moe": 128, "gemma2": 4096, "llama4": 8192, "smallthinker": 4096}
# These never keep keys: they see all of a text at once.
_KEEP_NOTHING = frozenset(
    {
        *("bert", "modern-bert", "nomic-bert", "nomic-bert-moe", "neo-bert", "jina-bert-v2", "jina-bert-v3"),
        *("eurobert", "gemma-embedding", "wavtokenizer-dec", "dream", "llada", "llada-moe", "rnd1", "clef"),
    }
)
# Of how many layers in a row the last one attends, where the file does not say; the others are recurrent.
_ATTENDING = {
    "qwen3next": 4,
    "qwen35": 4,
    "qwen35moe": 4,
    "qwen4exp": 4,
    "minimax-01": 8,
}
# Layers of these that keep keys of their own, from the first on; the rest share theirs.
_OWN_KEYS = {"gemma3n": 20}
_PART = re.compile(r"-(\d{5})-of-(\d{5})\.gguf$")


def read_shape(head: bytes | bytearray | memoryview) -> ModelShape | More | Unreadable:
    """Read the shape of a model from the first bytes of its file, of its first file where it is split."""
    header = read_header(head)
    return shape_of(header) if isinstance(header, Header) else header


def part_names(name: str) -> tuple[str, ...]:
    """Name all files of a set from the name of any of them; a file that is no part of a set is alone."""
    found = _PART.search(name)
    if found is None or not 1 <= int(found[1]) <= int(found[2]):
        return (name,)
    beginning = name[: found.start()]
    return tuple(f"{beginning}-{n:05d}-of-{found[2]}.gguf" for n in range(1, int(found[2]) + 1))


def shape_of(header: Header) -> ModelShape | Unreadable:
    """Say what a header tells of the model, or why it is the header of none."""
    said = _Said(header)
    number, parts = said.count("split.no") or 0, said.count("split.count") or 1
    if number > 0:
        return Unreadable(f"it is part {number + 1} of {parts}; the first part describes the model")
    kind = said.text("general.type")
    if kind is not None and kind != "model":
        return Unreadable(f"wanted a model, found what calls itself {kind[:40]!r}")
    architecture = said.text("general.architecture")
    if architecture is None or not architecture or len(architecture) > 64:
        return Unreadable("wanted a model, found a header without general.architecture")
    layers = said.own("block_count")
    if layers is None or not 0 < layers <= MOST_LAYERS:
        return Unreadable(
            f"wanted a model of 1 to {MOST_LAYERS} layers, found {architecture}.block_count {layers}"
        )
    return _shape(said, architecture, layers, parts)


class _Said:
    """What a header says, with what cannot be left out."""

    def __init__(self, header: Header) -> None:
        self.header = header
        self.architecture = self.text("general.architecture") or ""

    def text(self, key: str) -> str | None:
        value = self.header.values.get(key)
        return value if isinstance(value, str) else None

    def count(self, key: str) -> int | None:
        """Return a whole number that may be true."""
        value = self.header.values.get(key)
        return value if isinstance(value, int) and 0 <= value <= _MOST else None

    def own(self, key: str) -> int | None:
        """Return a number of the architecture's own."""
        return self.count(f"{self.architecture}.{key}")

    def each(self, key: str, layers: int) -> tuple[int, ...] | None:
        """Return a number for each layer, where the file has one or one for all."""
        value = self.header.values.get(f"{self.architecture}.{key}")
        if isinstance(value, int) and 0 <= value <= _MOST:
            return (int(value),) * layers
        if isinstance(value, tuple) and len(value) >= layers:
            found = tuple(int(one) for one in value[:layers] if isinstance(one, int) and 0 <= one <= _MOST)
            return found if len(found) == layers else None
        return None


def _shape(said: _Said, architecture: str, layers: int, parts: int) -> ModelShape | Unreadable:
    embedding, heads = said.own("embedding_length"), said.each("attention.head_count", layers) or ()
    most_heads = max(heads, default=0)
    width = embedding // most_heads if embedding and most_heads else None
    key_length = _first(said.own("attention.key_length"), width)
    windowed = _window_layers(said, architecture, layers)
    kv_heads = _kv_heads(said, architecture, layers, heads)
    state, recurrent = _state(said, layers, most_heads, kv_heads)
    shape = ModelShape(
        architecture=architecture,
        layers=layers,
        context=said.own("context_length"),
        embedding=embedding,
        vocabulary=_length(said, "tokenizer.ggml.tokens") or said.own("vocab_size"),
        merges=_length(said, "tokenizer.ggml.merges"),
        heads=most_heads or None,
        kv_heads=_short(kv_heads),
        key_length=key_length,
        value_length=_first(said.own("attention.value_length"), width),
        key_length_window=said.own("attention.key_length_swa"),
        value_length_window=said.own("attention.value_length_swa"),
        window=_window(said, architecture) if windowed else None,
        window_layers=windowed,
        latent_rank=_latent(said, key_length),
        recurrent_bytes=state * recurrent or None,
        recurrent_layers=recurrent or None,
        indexer_length=said.own("attention.indexer.key_length"),
        feed_forward=_feed_forward(said, layers),
        experts_used=said.own("expert_used_count"),
        embedding_only=architecture in _KEEP_NOTHING or bool(said.own("pooling_type")),
        parts=parts,
        tensor_bytes=_tensor_bytes(said.header),
        input_bytes=_named_bytes(said.header, "token_embd.weight"),
        output_bytes=_named_bytes(said.header, "output.weight"),
    )
    for name in ("tensor_bytes", "input_bytes", "output_bytes", "recurrent_bytes", "feed_forward"):
        if (getattr(shape, name) or 0) > _MOST_BYTES:
            return Unreadable(
                f"wanted a model, found {name} {getattr(shape, name)}, which fits into no machine"
            )
    return shape


def _first(*numbers: int | None) -> int | None:
    return next((number for number in numbers if number is not None), None)


def _short(each: tuple[int, ...] | None) -> tuple[int, ...] | None:
    return each if each is None or len(set(each)) > 1 else each[:1]


def _kv_heads(said: _Said, architecture: str, layers: int, heads: Sequence[int]) -> tuple[int, ...] | None:
    """Count heads whose keys are kept, of each layer; a recurrent layer, and one that shares another's, has none."""
    if architecture in _KEEP_NOTHING:
        return (0,) * layers
    kept = said.each("attention.head_count_kv", layers) or (tuple(heads) or None)
    if kept is None:
        return None
    recurrent = said.each("attention.recurrent_layers", layers)
    if recurrent is None and architecture in _ATTENDING:
        every = said.own("full_attention_interval") or _ATTENDING[architecture]
        recurrent = tuple((layer + 1) % every for layer in range(layers))
    owning = _owning(said, architecture, layers)
    return tuple(
        0 if layer >= owning or (recurrent and recurrent[layer]) else count
        for layer, count in enumerate(kept)
    )


def _owning(said: _Said, architecture: str, layers: int) -> int:
    shared = said.own("attention.shared_kv_layers")
    if architecture in _OWN_KEYS:
        return _OWN_KEYS[architecture]
    return max(0, layers - (shared or 0))


def _window_layers(said: _Said, architecture: str, layers: int) -> tuple[bool, ...] | None:
    """Tell of each layer whether it looks at the window only; None where none does."""
    if not _window(said, architecture):
        return None
    key = f"{architecture}.attention.sliding_window_pattern"
    listed = said.each("attention.sliding_window_pattern", layers)
    if listed is not None and isinstance(said.header.values.get(key), tuple):
        return tuple(bool(one) for one in listed)
    if architecture not in _PERIODS:
        return None
    period, first = _PERIODS[architecture]
    period = listed[0] if listed else period
    if period == 0:
        return (True,) * layers
    whole = 0 if first else period - 1
    return tuple(layer % period != whole for layer in range(layers))


def _window(said: _Said, architecture: str) -> int | None:
    return _first(said.own("attention.sliding_window"), _WINDOWS.get(architecture))


def _latent(said: _Said, key_length: int | None) -> int | None:
    """Return the width of the latent that is kept; files of before there was one keep whole keys and values."""
    both = said.own("attention.key_length_mla") and said.own("attention.value_length_mla")
    return key_length if both else None


def _state(said: _Said, layers: int, heads: int, kv_heads: tuple[int, ...] | None) -> tuple[int, int]:
    """Return the bytes that a recurrent layer keeps of each sequence, and how many such layers there are."""
    numbers = _kept_numbers(said, heads)
    if numbers == 0:
        return 0, 0
    recurrent = sum(count == 0 for count in kv_heads or ())
    return numbers * _F32, recurrent or layers


def _kept_numbers(said: _Said, heads: int) -> int:
    """Count what a recurrent layer keeps, of convolution and state: n_embd_r and n_embd_s of llama.cpp."""
    embedding, conv = said.own("embedding_length") or 0, said.own("ssm.conv_kernel") or 0
    if head := said.own("wkv.head_size"):
        return (said.own("token_shift_count") or 2) * embedding + embedding * head
    if cache := said.own("shortconv.l_cache"):
        return embedding * max(0, cache - 1)
    if head := said.own("kda.head_dim"):
        return 3 * (conv - 1 if conv else 3) * heads * head + head * head * heads
    inner, state = said.own("ssm.inner_size") or 0, said.own("ssm.state_size") or 0
    grouped = 2 * (said.own("ssm.group_count") or 0) * state
    return max(0, conv - 1) * (inner + grouped) + state * inner


def _feed_forward(said: _Said, layers: int) -> int | None:
    dense = said.each("feed_forward_length", layers)
    expert = said.each("expert_feed_forward_length", layers) or (0,)
    used, shared = said.own("expert_used_count") or 0, said.own("expert_shared_feed_forward_length") or 0
    if used and max(expert) == 0 and dense:
        # Early mixtures name the width of an expert as if it were the only one.
        return max(dense) * used
    inner = 2 * (said.own("ssm.inner_size") or 0)
    return max(max(dense or (0,)), max(expert) * used + shared, inner) or None


def _length(said: _Said, key: str) -> int | None:
    listed = said.header.values.get(key)
    return listed.count if isinstance(listed, Listed) else None


def _tensor_bytes(header: Header) -> int | None:
    sizes = [tensor.size_bytes for tensor in header.tensors]
    known = [size for size in sizes if size is not None]
    return sum(known) if known and len(known) == len(sizes) else None


def _named_bytes(header: Header, name: str) -> int | None:
    tensor = next((one for one in header.tensors if one.name == name), None)
    return 0 if tensor is None else tensor.size_bytes
