"""What the header of a weights file tells of the model in it: all that its memory can be reckoned from."""

import msgspec


class ModelShape(msgspec.Struct, frozen=True, kw_only=True):
    """The shape of a model, from its GGUF header; None is what the header does not say.

    Attributes:
        architecture: e.g. "llama", "gemma3".
        layers: how many blocks it has.
        context: tokens of context that it was trained with.
        embedding: width of a token's vector.
        vocabulary: how many tokens it knows.
        merges: pairs of tokens that its tokenizer joins.
        heads: attention heads.
        kv_heads: attention heads whose keys and values are kept, layer by layer; one number when all are alike.
        key_length: width of one key.
        value_length: width of one value.
        key_length_window: width of one key in layers that look at a window only; key_length when None.
        value_length_window: width of one value in such layers; value_length when None.
        window: tokens that such layers look at; None when all layers look at everything.
        window_layers: for each layer, whether it looks at the window only.
        latent_rank: keys and values are kept as one latent of this width (MLA); values are then not kept.
        recurrent_bytes: bytes of state that each sequence keeps beside, whatever its length.
        recurrent_layers: how many of its layers keep that state.
        indexer_length: width of one more key that each layer keeps, to choose what it attends to.
        feed_forward: numbers that a token becomes between two attentions, those of all experts it passes through.
        experts_used: how many of its experts a token passes through; None or 0 when it has none.
        embedding_only: it is made for vectors, not for text.
        parts: how many files it is split into.
        tensor_bytes: bytes of all tensors in this file; None when the header was cut off before.
        input_bytes: of those, the table of tokens' vectors, which is looked up in main memory.
        output_bytes: of those, what makes tokens of vectors; 0 when the table of tokens' vectors serves for that.
    """

    architecture: str
    layers: int | None = None
    context: int | None = None
    embedding: int | None = None
    vocabulary: int | None = None
    merges: int | None = None
    heads: int | None = None
    kv_heads: tuple[int, ...] | None = None
    key_length: int | None = None
    value_length: int | None = None
    key_length_window: int | None = None
    value_length_window: int | None = None
    window: int | None = None
    window_layers: tuple[bool, ...] | None = None
    latent_rank: int | None = None
    recurrent_bytes: int | None = None
    recurrent_layers: int | None = None
    indexer_length: int | None = None
    feed_forward: int | None = None
    experts_used: int | None = None
    embedding_only: bool = False
    parts: int = 1
    tensor_bytes: int | None = None
    input_bytes: int | None = None
    output_bytes: int | None = None
