from hypothesis import given
from hypothesis import strategies as st

from llmgw.core.placement.measured import learned_words, with_peak
from llmgw.core.placement.need import UNKNOWN, Need, Said
from llmgw.core.units import MIB


def need(estimated: int = 600, spare: int = 512, late: int | None = 100, **changes: object) -> Need:
    given = {
        "memory_bytes": (estimated + spare) * MIB,
        "estimated_bytes": estimated * MIB,
        "spare_bytes": spare * MIB,
        "late_bytes": None if late is None else late * MIB,
    }
    return Need(**(given | changes))


def mib(one: Need) -> float:
    assert one.memory_bytes is not None
    return one.memory_bytes / MIB


def test_a_peak_above_the_estimate_is_needed_and_may_be_prompts_that_were_kept() -> None:
    assert mib(with_peak(need(), 700 * MIB)) == 600 + 512
    assert mib(with_peak(need(), 1500 * MIB)) == 1500
    assert mib(with_peak(need(spare=0), 700 * MIB)) == 700


def test_a_peak_below_the_estimate_lowers_the_need_but_for_what_may_still_come() -> None:
    assert mib(with_peak(need(), 300 * MIB)) == 300 + 100 + 512
    assert mib(with_peak(need(), 550 * MIB)) == 600 + 512


def test_where_nobody_knows_what_comes_late_a_low_peak_lowers_nothing() -> None:
    assert mib(with_peak(need(late=None), 300 * MIB)) == 600 + 512


def test_a_peak_stands_alone_where_nothing_was_estimated() -> None:
    found = with_peak(UNKNOWN, 300 * MIB)

    assert (found.memory_bytes, found.said, found.measured_bytes) == (300 * MIB, Said.MEASURED, 300 * MIB)


def test_both_figures_stay_with_the_need() -> None:
    found = with_peak(need(), 300 * MIB)

    assert (found.said, found.estimated_bytes, found.measured_bytes) == (
        Said.MEASURED,
        600 * MIB,
        300 * MIB,
    )


def test_without_a_peak_nothing_changes_and_what_was_given_stays() -> None:
    given_need = need(said=Said.GIVEN, memory_bytes=50 * MIB)

    assert with_peak(need(), None) == need()
    assert mib(with_peak(given_need, 300 * MIB)) == 50
    assert with_peak(given_need, 300 * MIB).measured_bytes == 300 * MIB


@given(st.integers(1, 2000), st.integers(0, 2000), st.integers(0, 2000), st.integers(1, 5000))
def test_a_need_is_never_below_what_was_measured(estimated: int, spare: int, late: int, peak: int) -> None:
    found = with_peak(need(estimated, spare, late), peak * MIB)

    assert mib(found) >= peak
    assert mib(found) <= max(estimated + spare, peak)


def test_words_say_both_figures_and_what_is_for_earlier_prompts() -> None:
    def words(said: Said, estimated: int | None, measured: int | None, spare: int = 0) -> str:
        sizes = [None if size is None else size * MIB for size in (estimated, measured)]
        return learned_words(said, estimated_bytes=sizes[0], measured_bytes=sizes[1], spare_bytes=spare * MIB)

    assert words(Said.ESTIMATED, 600, None, 512) == "estimated 600.0 MiB, 512.0 MiB for earlier prompts"
    assert words(Said.MEASURED, 600, 540) == "measured 540.0 MiB, estimated 600.0 MiB"
    assert words(Said.GIVEN, None, None) == "given"
    assert words(Said.GIVEN, 600, 540) == "given, measured 540.0 MiB, estimated 600.0 MiB"
    assert words(Said.MEASURED, None, None) == "measured"
