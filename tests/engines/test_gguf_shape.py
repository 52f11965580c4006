"""Shapes of models of several kinds, from headers that the reference writer wrote (PLACE-5)."""

from pathlib import Path

import pytest
from fakes.gguf_files import F32, GgufFile

from llmgw.core.fleet.model_shape import ModelShape
from llmgw.engines.gguf import Unreadable
from llmgw.engines.gguf_shape import part_names, read_shape

PLAIN = {"block_count": 4, "embedding_length": 512, "attention__head_count": 8, "context_length": 4096}


def shape(tmp_path: Path, architecture: str, **numbers: object) -> ModelShape:
    found = read_shape(GgufFile(tmp_path / "model.gguf", architecture, **(PLAIN | numbers)).bytes())
    assert isinstance(found, ModelShape), found
    return found


def test_a_llama_keeps_keys_and_values_of_its_few_heads_in_every_layer(tmp_path: Path) -> None:
    file = GgufFile(
        tmp_path / "model.gguf", "llama", **PLAIN, attention__head_count_kv=2, feed_forward_length=1536
    )
    file.vocabulary(300, merges=20)
    file.tensor("token_embd.weight", 300, 512).tensor("output.weight", 300, 512).tensor("norm", 1, 512, F32)

    assert read_shape(file.bytes()) == ModelShape(
        architecture="llama",
        layers=4,
        context=4096,
        embedding=512,
        vocabulary=300,
        merges=20,
        heads=8,
        kv_heads=(2,),
        key_length=64,
        value_length=64,
        feed_forward=1536,
        tensor_bytes=2 * 86400 + 2048,
        input_bytes=86400,
        output_bytes=86400,
    )


def test_a_gemma_looks_at_its_window_in_five_of_six_layers(tmp_path: Path) -> None:
    found = shape(
        tmp_path,
        "gemma3",
        block_count=8,
        attention__head_count_kv=1,
        attention__key_length=256,
        attention__value_length=256,
        attention__sliding_window=512,
    )

    assert (found.window, found.key_length) == (512, 256)
    assert found.window_layers == (True,) * 5 + (False,) + (True,) * 2
    assert (found.tensor_bytes, found.output_bytes) == (None, 0)


def test_a_pattern_in_the_file_wins_over_what_its_kind_usually_has(tmp_path: Path) -> None:
    every_other = shape(
        tmp_path, "gemma3", attention__sliding_window=512, attention__sliding_window_pattern=2
    )
    listed = shape(
        tmp_path,
        "gemma4",
        attention__sliding_window=512,
        attention__sliding_window_pattern=[False, True, True, False],
        attention__key_length_swa=128,
        attention__value_length_swa=128,
    )

    assert every_other.window_layers == (True, False, True, False)
    assert listed.window_layers == (False, True, True, False)
    assert (listed.key_length_window, listed.value_length_window) == (128, 128)


def test_a_window_that_the_engine_does_not_use_is_none(tmp_path: Path) -> None:
    found = shape(tmp_path, "llama", attention__sliding_window=4096)

    assert (found.window, found.window_layers) == (None, None)


def test_layers_that_share_keys_of_others_keep_none(tmp_path: Path) -> None:
    found = shape(
        tmp_path,
        "gemma4",
        attention__head_count_kv=2,
        attention__shared_kv_layers=1,
        attention__sliding_window=8,
    )

    assert found.kv_heads == (2, 2, 2, 0)


def test_a_deepseek_keeps_one_latent_and_no_values(tmp_path: Path) -> None:
    numbers = {
        "attention__head_count": 16,
        "attention__head_count_kv": 1,
        "attention__key_length": 576,
        "attention__value_length": 512,
        "attention__kv_lora_rank": 512,
    }
    latent = shape(
        tmp_path,
        "deepseek2",
        **numbers,
        attention__key_length_mla=192,
        attention__value_length_mla=128,
        feed_forward_length=10944,
        expert_feed_forward_length=1408,
        expert_used_count=6,
        expert_count=64,
    )
    older = shape(tmp_path, "deepseek2", **numbers)

    assert (latent.latent_rank, latent.key_length, latent.kv_heads) == (576, 576, (1,))
    assert (latent.feed_forward, latent.experts_used) == (10944, 6)
    assert older.latent_rank is None


def test_a_mamba_keeps_a_state_of_each_sequence_and_no_keys(tmp_path: Path) -> None:
    found = shape(
        tmp_path,
        "mamba",
        attention__head_count=0,
        ssm__conv_kernel=4,
        ssm__inner_size=1024,
        ssm__state_size=16,
    )

    assert found.kv_heads == (0,)
    assert found.recurrent_layers == 4
    assert found.recurrent_bytes == 4 * (3 * 1024 + 16 * 1024) * 4


def test_a_hybrid_keeps_keys_where_it_attends_and_states_elsewhere(tmp_path: Path) -> None:
    state = {"ssm__conv_kernel": 4, "ssm__inner_size": 1024, "ssm__state_size": 16, "ssm__group_count": 2}
    listed = shape(tmp_path, "jamba", attention__head_count_kv=[0, 0, 8, 0], **state)
    regular = shape(tmp_path, "qwen3next", attention__head_count_kv=2, full_attention_interval=2, **state)

    each = (3 * (1024 + 2 * 2 * 16) + 16 * 1024) * 4
    assert (listed.kv_heads, listed.recurrent_bytes) == ((0, 0, 8, 0), 3 * each)
    assert (regular.kv_heads, regular.recurrent_bytes) == ((0, 2, 0, 2), 2 * each)


def test_a_model_made_for_vectors_is_told_and_keeps_nothing(tmp_path: Path) -> None:
    found = shape(tmp_path, "bert", pooling_type=2)

    assert (found.embedding_only, found.kv_heads) == (True, (0,))


def test_the_first_part_of_a_set_speaks_for_all_and_the_others_are_no_models(tmp_path: Path) -> None:
    first = GgufFile(tmp_path / "a.gguf", "llama", **PLAIN).add("split.no", 0).add("split.count", 3)
    second = GgufFile(tmp_path / "b.gguf", "llama", **PLAIN).add("split.no", 1).add("split.count", 3)

    found = read_shape(first.bytes())

    assert isinstance(found, ModelShape)
    assert found.parts == 3
    assert read_shape(second.bytes()) == Unreadable("it is part 2 of 3; the first part describes the model")


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"block_count": 0}, "wanted a model of 1 to 4096 layers, found llama.block_count 0"),
        ({"block_count": 1_000_000}, "found llama.block_count 1000000"),
        ({"block_count": "many"}, "found llama.block_count None"),
        (
            {"expert_feed_forward_length": 2**31, "expert_used_count": 2**31},
            "feed_forward 4611686018427387904",
        ),
    ],
)
def test_numbers_that_no_model_has_are_refused(
    changes: dict[str, object], reason: str, tmp_path: Path
) -> None:
    found = read_shape(GgufFile(tmp_path / "model.gguf", "llama", **(PLAIN | changes)).bytes())

    assert isinstance(found, Unreadable)
    assert reason in found.reason


def test_what_is_no_model_says_what_it_is(tmp_path: Path) -> None:
    adapter = GgufFile(tmp_path / "a.gguf", "llama", **PLAIN).add("general.type", "adapter")

    assert read_shape(adapter.bytes()) == Unreadable("wanted a model, found what calls itself 'adapter'")


def test_any_part_of_a_set_names_all_of_them() -> None:
    assert part_names("/m/big-00002-of-00003.gguf") == (
        "/m/big-00001-of-00003.gguf",
        "/m/big-00002-of-00003.gguf",
        "/m/big-00003-of-00003.gguf",
    )
    assert part_names("/m/big.gguf") == ("/m/big.gguf",)
    assert part_names("/m/big-00004-of-00003.gguf") == ("/m/big-00004-of-00003.gguf",)
