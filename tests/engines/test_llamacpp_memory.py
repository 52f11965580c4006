"""What llama.cpp is reckoned to need, against what build 11434 says it reserves (PLACE-5)."""

import pytest
from msgspec.structs import replace

from llmgw.core.fleet.catalog import Profile
from llmgw.core.fleet.model_shape import ModelShape
from llmgw.core.placement.need import UNKNOWN, Need, Said
from llmgw.core.units import GIB, MIB
from llmgw.engines.llamacpp_args import setting_of
from llmgw.engines.llamacpp_memory import compute_bytes, keys_bytes, need_of, parts_of

# Widths as they are in the published models; four layers are enough to tell.
LLAMA_8B = ModelShape(
    architecture="llama",
    layers=4,
    context=131072,
    embedding=4096,
    vocabulary=128256,
    heads=32,
    kv_heads=(8,),
    key_length=128,
    value_length=128,
    feed_forward=14336,
    tensor_bytes=1_217_000_000,
    input_bytes=295_501_824,
    output_bytes=430_940_160,
)
LLAMA_70B = replace(LLAMA_8B, embedding=8192, feed_forward=28672, heads=64)
MIXTRAL = replace(LLAMA_8B, feed_forward=2 * 14336, experts_used=2)
QWEN3_30B = replace(
    LLAMA_8B, embedding=2048, kv_heads=(4,), feed_forward=8 * 768, experts_used=8, vocabulary=151936
)
GEMMA = ModelShape(
    architecture="gemma3",
    layers=18,
    context=32768,
    embedding=640,
    vocabulary=262144,
    heads=4,
    kv_heads=(1,),
    key_length=256,
    value_length=256,
    window=512,
    window_layers=tuple(layer % 6 != 5 for layer in range(18)),
    feed_forward=2048,
    input_bytes=178257920,
    output_bytes=0,
)
GEMMA_BYTES = 253_113_088


def profile(*args: str, context: int | None = None, parallel: int | None = None, gpus: int = 0) -> Profile:
    return Profile(
        name="p",
        engine="llama.cpp",
        weights="file:///m.gguf",
        context=context,
        parallel=parallel,
        gpus=gpus,
        args=args,
    )


def words(text: str) -> tuple[str, ...]:
    return tuple(text.split())


# The last two columns are the engine's own words at its start, in MiB: "KV buffer size" and "compute buffer size".
RESERVED = [
    (LLAMA_8B, "-c 4096 -np 1", 64.0, 128.02),
    (LLAMA_8B, "-c 32768 -np 4", 512.0, 132.02),
    (LLAMA_8B, "-c 131072 -np 1", 2048.0, 252.02),
    (LLAMA_8B, "-c 4096 -np 1 -ub 256", 64.0, 64.01),
    (LLAMA_8B, "-c 4096 -np 1 -fa off", 64.0, 316.01),
    (LLAMA_8B, "-c 4096 -np 1 -ctk q8_0 -ctv q8_0", 34.0, 128.1),
    (LLAMA_70B, "-c 4096 -np 1", 64.0, 252.02),
    (LLAMA_70B, "-c 4096 -np 1 -fa off", 64.0, 620.01),
    (MIXTRAL, "-c 32768 -np 4", 512.0, 216.02),
    (QWEN3_30B, "-c 131072 -np 1", 1024.0, 216.02),
    (QWEN3_30B, "-c 4096 -np 1 -fa off", 32.0, 302.01),
    (GEMMA, "-c 2048 -np 1", 21.0, 21.28),
    (GEMMA, "-c 8192 -np 4", 84.0, 21.28),
    (GEMMA, "-c 32768 -np 4", 156.0, 27.28),
]


@pytest.mark.parametrize(("shape", "args", "keys", "compute"), RESERVED)
def test_what_is_reckoned_is_what_the_engine_reserves(
    shape: ModelShape, args: str, keys: float, compute: float
) -> None:
    setting = setting_of(profile(*words(args)), shape)

    assert keys_bytes(setting, shape) == keys * MIB
    # Beside the buffer, what threads work in is counted.
    assert compute - 0.15 <= compute_bytes(setting, shape) / MIB <= 1.15 * compute


# Peaks of a fresh control group on llama-server b11434, every slot with one prompt that filled it.
@pytest.mark.parametrize(
    ("context", "parallel", "args", "peak"),
    [
        (2048, 1, "", 345.8),
        (8192, 4, "", 471.1),
        (32768, 4, "", 552.9),
        (4096, 2, "--swa-full", 388.8),
        (4096, 2, "-fa off", 409.9),
        (4096, 2, "-ctk q8_0 -ctv q8_0", 354.5),
        (2048, 2, "-ub 128", 357.8),
    ],
)
def test_an_estimate_is_at_most_a_fifth_above_what_was_measured_and_never_below(
    context: int, parallel: int, args: str, peak: float
) -> None:
    wanted = profile(*words(args), context=context, parallel=parallel)

    need = need_of(wanted, GEMMA, GEMMA_BYTES)

    assert need.estimated_bytes is not None
    assert peak <= need.estimated_bytes / MIB <= 1.2 * peak


def test_room_for_earlier_prompts_is_asked_for_beside_as_the_arguments_set_it() -> None:
    bare = need_of(profile("--cache-ram", "0", context=2048, parallel=1), GEMMA, GEMMA_BYTES)
    usual = need_of(profile(context=2048, parallel=1), GEMMA, GEMMA_BYTES)
    more = need_of(profile("-cram", "1024", context=2048, parallel=1), GEMMA, GEMMA_BYTES)

    assert usual.said == Said.ESTIMATED
    assert bare.estimated_bytes == usual.estimated_bytes == more.estimated_bytes == bare.memory_bytes
    assert [need.spare_bytes for need in (bare, usual, more)] == [0, 512 * MIB, GIB]
    assert usual.memory_bytes == (usual.estimated_bytes or 0) + 512 * MIB


def test_slots_that_share_one_cache_keep_windows_of_all_of_them_in_it() -> None:
    apart = setting_of(profile(context=8192, parallel=4), GEMMA)
    shared = setting_of(profile("-kvu", context=8192, parallel=4), GEMMA)

    # 3 layers of all cells, 15 of windows: 1,024 in each of four caches, or 4 x 512 + 512 padded in one.
    assert keys_bytes(apart, GEMMA) == 1024 * 4 * (3 * 2048 + 15 * 1024)
    assert keys_bytes(shared, GEMMA) == 1024 * (3 * 8192 + 15 * 2560)


def test_a_latent_is_kept_without_values_and_an_indexer_beside_it() -> None:
    shape = ModelShape(architecture="deepseek2", layers=2, kv_heads=(1,), key_length=576, latent_rank=576)
    setting = setting_of(profile(context=4096, parallel=1), shape)

    assert keys_bytes(setting, shape) == 2 * 4096 * 576 * 2
    assert keys_bytes(setting, replace(shape, indexer_length=128)) == 2 * 4096 * (576 + 128) * 2


def test_states_are_kept_of_each_slot_whatever_the_context() -> None:
    shape = ModelShape(architecture="mamba", layers=2, kv_heads=(0,), recurrent_bytes=1000)
    few, many = (setting_of(profile(context=context, parallel=4), shape) for context in (1024, 65536))

    assert keys_bytes(few, shape) == keys_bytes(many, shape) == 4000
    assert parts_of(few, shape, 0).checkpoints == 2 * 4000


def test_checkpoints_are_bounded_by_the_arguments_and_needed_by_no_model_that_can_forget() -> None:
    def checkpoints(shape: ModelShape, *args: str) -> int:
        return parts_of(setting_of(profile(*args, context=65536, parallel=2), shape), shape, 0).checkpoints

    one = 15 * 512 * 1024
    assert checkpoints(GEMMA) == 2 * (2 + 4) * one
    assert checkpoints(GEMMA, "--ctx-checkpoints", "1") == 2 * one
    assert checkpoints(GEMMA, "--swa-full") == 0
    assert checkpoints(LLAMA_8B) == 0


def test_without_a_header_only_what_is_certain_is_counted() -> None:
    need = need_of(profile(context=4096), None, GIB)

    assert need.estimated_bytes is not None
    assert GIB < need.estimated_bytes < 1.1 * GIB
    assert need_of(profile(context=4096), None, None) == UNKNOWN


def test_tensors_stand_for_a_file_of_unknown_size_unless_there_are_more_files() -> None:
    whole = need_of(profile(context=4096), LLAMA_8B, None)

    assert whole == need_of(profile(context=4096), LLAMA_8B, LLAMA_8B.tensor_bytes)
    assert need_of(profile(context=4096), replace(LLAMA_8B, parts=2), None) == UNKNOWN


def test_arguments_without_measure_make_a_need_that_still_can_be_told() -> None:
    need = need_of(profile("-c", "9999999999", "-np", "999999999", "-cram", "9999999999"), GEMMA, GEMMA_BYTES)

    assert 2**52 < (need.memory_bytes or 0) < 2**54


def gpu_need(*args: str, gpus: int = 1) -> Need:
    return need_of(profile(*args, context=4096, parallel=1, gpus=gpus), LLAMA_8B, LLAMA_8B.tensor_bytes)


def test_on_a_gpu_are_layers_and_keys_and_in_memory_the_table_of_tokens() -> None:
    need, alone = gpu_need(), need_of(profile(context=4096, parallel=1), LLAMA_8B, LLAMA_8B.tensor_bytes)
    weights = (LLAMA_8B.tensor_bytes or 0) - (LLAMA_8B.input_bytes or 0)

    assert need.gpu_bytes is not None
    assert need.gpu_bytes > weights + 64 * MIB + 128 * MIB + GIB
    assert need.gpu_bytes < weights + 64 * MIB + 128 * MIB + 2 * GIB
    assert (need.estimated_bytes or 0) < (alone.estimated_bytes or 0) - weights / 2 + 512 * MIB


def test_two_gpus_hold_less_each_than_one_and_what_is_left_free_is_asked_for() -> None:
    one, two, tight = gpu_need(), gpu_need(gpus=2), gpu_need("-fit", "off")

    assert one.gpu_bytes is not None
    assert two.gpu_bytes is not None
    assert two.gpu_bytes < one.gpu_bytes
    assert tight.gpu_bytes == one.gpu_bytes - 1024 * MIB


def test_layers_that_stay_are_in_memory() -> None:
    all_away, half, none = gpu_need(), gpu_need("-ngl", "3"), gpu_need("-ngl", "0")
    layers = (LLAMA_8B.tensor_bytes or 0) - (LLAMA_8B.input_bytes or 0) - (LLAMA_8B.output_bytes or 0)

    assert [all_away.gpu_bytes or 0, half.gpu_bytes or 0, none.gpu_bytes or 0] == sorted(
        [all_away.gpu_bytes or 0, half.gpu_bytes or 0, none.gpu_bytes or 0], reverse=True
    )
    assert (half.estimated_bytes or 0) - (all_away.estimated_bytes or 0) >= layers / 2
    assert (none.estimated_bytes or 0) - (all_away.estimated_bytes or 0) >= layers
