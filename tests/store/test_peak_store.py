from datetime import UTC, datetime, timedelta
from pathlib import Path

from msgspec.structs import replace

from llmgw.core.fleet.peaks import Peak
from llmgw.store import peaks as module
from llmgw.store.database import Database
from llmgw.store.peaks import PeakStore

AT = datetime(2030, 1, 1, tzinfo=UTC)
PEAK = Peak(
    model="gemma",
    fingerprint="f1",
    engine="llama.cpp",
    version="b11434",
    peak_bytes=3 * 2**40,
    at=AT,
)


async def test_peaks_come_back_after_a_restart_with_the_latest_first(tmp_path: Path) -> None:
    database = await Database.open(tmp_path / "llmgw.db")
    other = replace(PEAK, version="", at=AT + timedelta(hours=1))
    await PeakStore(database).keep((PEAK, other))
    await database.close()

    again = await Database.open(tmp_path / "llmgw.db")
    found = await PeakStore(again).load()
    await again.close()

    assert found == (other, PEAK)


async def test_a_later_peak_takes_the_place_of_the_earlier_one(database: Database) -> None:
    store = PeakStore(database)
    later = replace(PEAK, model="renamed", peak_bytes=9, at=AT + timedelta(days=1))
    await store.keep((PEAK,))

    await store.keep((later,))
    await store.keep(())

    assert await store.load() == (later,)


async def test_no_more_than_a_number_of_them_is_kept_and_the_oldest_go(database: Database) -> None:
    store = PeakStore(database)
    many = tuple(
        replace(PEAK, fingerprint=str(number), at=AT + timedelta(seconds=number))
        for number in range(module.MOST_KEPT + 20)
    )

    await store.keep(many)

    found = await store.load()
    assert len(found) == module.MOST_KEPT
    assert found[-1] == many[20]
