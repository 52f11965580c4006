from fakes.catalogs import a_catalog, a_model, a_profile
from fakes.fleets import a_fleet
from fakes.machines import HUB, a_holding
from fakes.nodes import an_introduction
from fakes.reckoning import FakePeaks, FakeReckoning
from msgspec.structs import replace

from llmgw.control.needs import Needs
from llmgw.core.fleet.catalog import Catalog, Profile
from llmgw.core.fleet.model_shape import ModelShape
from llmgw.core.fleet.snapshot import Fleet, heard
from llmgw.core.fleet.weights import Holding
from llmgw.core.placement.need import Need, Said
from llmgw.core.units import GIB

SHAPE = ModelShape(architecture="llama", layers=4)
FETCHED = a_profile(weights=HUB)
PRINT = FETCHED.fingerprint()


def _catalog(*profiles: Profile) -> Catalog:
    return a_catalog(a_model(profiles=profiles or (FETCHED,)))


def _fleet(*holdings: Holding) -> Fleet:
    return a_fleet(*(an_introduction(f"n{number}", weights=(one,)) for number, one in enumerate(holdings)))


class _Asked:
    """Needs of one engine, and all it asked."""

    def __init__(self, **peaks: int) -> None:
        self.engine = FakeReckoning()
        self.peaks = FakePeaks(**peaks)
        self.needs = Needs({"llama.cpp": self.engine}, self.peaks)


def test_an_engine_reckons_from_the_shape_and_size_that_a_node_tells_of_the_weights() -> None:
    one = _Asked()

    needs = one.needs.of(_catalog(), _fleet(a_holding(size_gb=2, shape=SHAPE)))

    assert one.engine.asked == [("cpu", SHAPE, 2 * GIB)]
    assert needs[PRINT].memory_bytes == 4 * GIB
    assert needs[PRINT].disk_bytes == 2 * GIB


def test_weights_are_known_by_their_name_in_the_cache_where_the_source_is_not_told() -> None:
    named = replace(a_holding(size_gb=2), source=None)

    needs = _Asked().needs.of(_catalog(), _fleet(named))

    assert needs[PRINT].memory_bytes == 4 * GIB


def test_a_model_that_nobody_holds_whole_has_no_estimate() -> None:
    one = _Asked()

    needs = one.needs.of(_catalog(), _fleet(a_holding(complete=False), a_holding("hf://lab/other")))

    assert one.engine.asked == [("cpu", None, None)]
    assert needs == {PRINT: Need()}


def test_of_different_sizes_the_largest_counts_with_its_shape() -> None:
    one = _Asked()
    other = replace(SHAPE, layers=8)

    one.needs.of(
        _catalog(),
        _fleet(a_holding(size_gb=3, shape=other), a_holding(size_gb=2, shape=SHAPE), a_holding(size_gb=1)),
    )

    assert one.engine.asked == [("cpu", other, 3 * GIB)]


def test_a_measured_peak_replaces_the_estimate_and_both_stay_known() -> None:
    needs = _Asked(**{PRINT: 5 * GIB}).needs.of(_catalog(), _fleet(a_holding(size_gb=2)))

    need = needs[PRINT]
    assert (need.memory_bytes, need.said) == (5 * GIB, Said.MEASURED)
    assert (need.estimated_bytes, need.measured_bytes) == (4 * GIB, 5 * GIB)


def test_a_peak_that_grows_counts_at_the_next_plan() -> None:
    one, fleet = _Asked(), _fleet(a_holding(size_gb=2))
    one.needs.of(_catalog(), fleet)

    one.peaks.peaks[PRINT] = 6 * GIB

    assert one.needs.of(_catalog(), fleet)[PRINT].memory_bytes == 6 * GIB
    assert len(one.engine.asked) == 1


def test_a_heartbeat_that_tells_nothing_new_of_weights_asks_no_engine_again() -> None:
    one, fleet, catalog = _Asked(), _fleet(a_holding(size_gb=2)), _catalog()
    first = one.needs.of(catalog, fleet)

    fleet = heard(fleet, "n0", connection=1, now=1.0, at=fleet.nodes["n0"].since)
    second = one.needs.of(catalog, fleet)

    assert second == first
    assert len(one.engine.asked) == 1


def test_weights_that_come_or_go_are_noticed() -> None:
    one, catalog = _Asked(), _catalog()

    sizes = [
        one.needs.of(catalog, fleet)[PRINT].disk_bytes
        for fleet in (Fleet(), _fleet(a_holding(size_gb=2)), _fleet(a_holding(size_gb=3)), Fleet())
    ]

    assert sizes == [None, 2 * GIB, 3 * GIB, None]


def test_an_edited_profile_is_reckoned_anew_and_the_old_one_forgotten() -> None:
    one, fleet = _Asked(), _fleet(a_holding(size_gb=2))
    edited = replace(FETCHED, context=8192)
    one.needs.of(_catalog(), fleet)

    needs = one.needs.of(_catalog(edited), fleet)

    assert set(needs) == {edited.fingerprint()}
    assert len(one.engine.asked) == 2


def test_an_engine_that_is_not_known_reckons_nothing() -> None:
    strange = a_profile(engine="other", weights=HUB)

    needs = _Asked().needs.of(_catalog(strange), _fleet(a_holding(size_gb=2)))

    assert needs == {strange.fingerprint(): Need(disk_bytes=2 * GIB)}
