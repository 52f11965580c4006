from fakes.fleets import AT, a_fleet
from fakes.nodes import a_shard, an_introduction
from msgspec.structs import replace

from llmgw.core.fleet.beat import Beat, ShardUse
from llmgw.core.fleet.peaks import Peak, grown
from llmgw.core.fleet.shards import Phase, ShardState
from llmgw.core.fleet.snapshot import Fleet, heard

PEAK = Peak(model="gemma", fingerprint="f1", engine="llama.cpp", version="b11434", peak_bytes=1000, at=AT)


def shard(ordinal: int = 0, **changes: object) -> ShardState:
    said = {"fingerprint": "f1", "engine_version": "b11434", "engine": "llama.cpp"}
    return replace(a_shard("gemma", ordinal), **(said | changes))


def fleet(*shards: ShardState, peaks: tuple[int | None, ...] = (1000,)) -> Fleet:
    uses = tuple(
        ShardUse(shard=one.shard, memory_bytes=1, peak_bytes=peak)
        for one, peak in zip(shards, peaks, strict=True)
    )
    seen = a_fleet(an_introduction("n1", shards=shards))
    return heard(seen, "n1", connection=1, now=1.0, at=AT, said=Beat(uses=uses))


def test_the_peak_of_a_ready_shard_is_news_of_its_profile_and_engine_version() -> None:
    assert grown({}, fleet(shard()), AT) == (PEAK,)


def test_a_shard_that_never_was_ready_has_no_peak_yet() -> None:
    assert grown({}, fleet(shard(phase=Phase.STARTING)), AT) == ()


def test_a_peak_is_news_again_when_it_grew_by_more_than_a_hundredth() -> None:
    known = {PEAK.key: PEAK}

    assert grown(known, fleet(shard(), peaks=(1010,)), AT) == ()
    assert [peak.peak_bytes for peak in grown(known, fleet(shard(), peaks=(1011,)), AT)] == [1011]


def test_of_several_shards_of_a_profile_the_highest_counts() -> None:
    found = grown({}, fleet(shard(0), shard(1), shard(2), peaks=(1000, 3000, 2000)), AT)

    assert [peak.peak_bytes for peak in found] == [3000]


def test_versions_are_apart_and_one_that_nobody_says_is_one_of_its_own() -> None:
    found = grown({}, fleet(shard(0), shard(1, engine_version=None), peaks=(1000, 2000)), AT)

    assert {peak.key: peak.peak_bytes for peak in found} == {("f1", "b11434"): 1000, ("f1", ""): 2000}


def test_what_cannot_be_true_is_no_news() -> None:
    nonsense = fleet(
        *(shard(0), shard(1), shard(2), shard(3, fingerprint=None), shard(4, engine_version="v" * 200)),
        peaks=(0, -5, 2**60, 1000, 1000),
    )

    assert grown({}, nonsense, AT) == ()
    assert grown({}, fleet(shard(), peaks=(None,)), AT) == ()


def test_uses_of_shards_that_are_gone_are_nobodys() -> None:
    seen = heard(
        a_fleet(an_introduction("n1")),
        "n1",
        connection=1,
        now=1.0,
        at=AT,
        said=Beat(uses=(ShardUse(shard="gone.0.0", peak_bytes=5),)),
    )

    assert grown({}, seen, AT) == ()
