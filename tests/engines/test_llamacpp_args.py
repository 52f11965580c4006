from hypothesis import given
from hypothesis import strategies as st

from llmgw.core.fleet.catalog import Profile
from llmgw.core.fleet.model_shape import ModelShape
from llmgw.engines.llamacpp_args import Setting, setting_of, slots_of

SHAPE = ModelShape(architecture="llama", layers=2, context=10_000)


def setting(
    *args: str, context: int | None = 4096, parallel: int | None = 2, shape: ModelShape = SHAPE
) -> Setting:
    profile = Profile(
        name="p", engine="llama.cpp", weights="file:///m", context=context, parallel=parallel, args=args
    )
    return setting_of(profile, shape)


def test_a_profile_without_arguments_is_set_up_as_the_engine_does_it() -> None:
    found = setting()

    assert (found.context, found.slot_context, found.slots, found.unified) == (4096, 2048, 2, False)
    assert (found.batch, found.ubatch, found.outputs, found.flash) == (2048, 512, 2, True)
    assert (found.key_block, found.value_block) == ((1, 2), (1, 2))
    assert (found.cache_bytes, found.checkpoints) == (512 * 1024**2, 32)
    assert (found.gpu_layers, found.split, found.keys_on_gpu) == (None, "layer", True)


def test_slots_that_nobody_counted_are_four_and_share_one_cache() -> None:
    found = setting(parallel=None)

    assert (found.slots, found.unified, found.slot_context) == (4, True, 4096)


def test_contexts_are_padded_as_the_engine_pads_them() -> None:
    odd, tiny = setting(context=4000, parallel=3), setting(context=256, parallel=8)

    assert (odd.context, odd.slot_context) == (3 * 1536, 1536)
    assert (tiny.context, tiny.slot_context) == (8 * 256, 256)


def test_a_context_that_nobody_gave_is_all_the_model_can_in_every_slot() -> None:
    assert setting(context=None).context == 2 * 10_240
    assert setting("-kvu", context=None).context == 10_240
    assert setting("--ctx-size", "0").context == 2 * 10_240
    assert setting("--kv-unified-per-slot", "2048", context=None).context == 4096
    assert setting(context=None, shape=ModelShape(architecture="x")).context == 2 * 4096


def test_the_last_of_an_argument_wins_and_beats_the_profile() -> None:
    found = setting("-c", "1024", "--ctx_size", "8192", "-np", "1", "-kvu", "-no-kvu")

    assert (found.context, found.slots, found.unified) == (8192, 1, False)


def test_a_batch_is_no_larger_than_the_context_and_no_smaller_than_what_is_computed() -> None:
    assert (setting(context=1024, parallel=1).batch, setting("-b", "256").ubatch) == (1024, 256)
    assert setting("-ub", "0").ubatch == 2048


def test_vectors_are_wanted_of_every_token_that_is_computed_at_once() -> None:
    found = setting("--embeddings")

    assert (found.batch, found.outputs) == (512, 512)


def test_arguments_that_are_written_are_read() -> None:
    found = setting(
        *(
            "-ctk",
            "q8_0",
            "-ctv",
            "q4_0",
            "--swa-full",
            "-fa",
            "off",
            "-cram",
            "-1",
            "--swa-checkpoints",
            "8",
        ),
        *("-ngl", "20", "-sm", "row", "-nkvo", "-cmoe", "-fitt", "2048,512"),
    )

    assert (found.key_block, found.value_block) == ((32, 34), (32, 18))
    assert (found.whole_windows, found.flash) == (True, False)
    assert (found.cache_bytes, found.checkpoints) == (None, 8)
    assert (found.gpu_layers, found.split, found.keys_on_gpu, found.kept_back) == (20, "row", False, True)
    assert found.fit_bytes == 2048 * 1024**2


def test_what_makes_no_sense_is_left_at_its_default() -> None:
    found = setting("-c", "many", "-ub", "1e3", "-ctk", "nonsense", "-ngl", "all", "-cram", "9" * 40, "-np")

    assert (found.context, found.ubatch, found.key_block, found.gpu_layers) == (4096, 512, (1, 2), None)
    assert (found.cache_bytes, found.slots) == (512 * 1024**2, 2)


@given(st.lists(st.sampled_from(["-c", "-np", "-ub", "-b", "-cram", "-kvu", "0", "-1", "7", "99999999", ""])))
def test_no_arguments_break_it(args: list[str]) -> None:
    found = setting(*args)

    assert found.slots == slots_of(
        Profile(name="p", engine="e", weights="w", context=4096, parallel=2, args=tuple(args))
    )
    assert found.context % 256 == 0
    assert found.slot_context <= found.context
