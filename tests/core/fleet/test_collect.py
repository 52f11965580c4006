from fakes.catalogs import a_catalog, a_model, a_profile
from fakes.fleets import a_fleet
from fakes.nodes import an_introduction

from llmgw.core.fleet.catalog import Catalog
from llmgw.core.fleet.collect import asked_for, fabric_stocks, stocks, wanted_sources
from llmgw.core.fleet.hardware import Fabric, Machine
from llmgw.core.fleet.weights import Holding, cache_name_of

WANTED = "hf://org/repo/wanted.gguf"
OTHER = "hf://org/repo/other.gguf"


def wanting(*sources: str) -> Catalog:
    return a_catalog(
        *(a_model(f"m{i}", profiles=(a_profile(weights=source),)) for i, source in enumerate(sources))
    )


def cached(text: str, **given: object) -> Holding:
    name = cache_name_of(text) or ""
    return Holding(**{"path": f"/cache/{name}", "cache_name": name} | given)  # type: ignore[arg-type]


def test_a_catalogs_sources_are_named_once_each() -> None:
    assert wanted_sources(wanting(WANTED, OTHER, WANTED)) == (WANTED, OTHER)


def test_only_cached_weights_that_no_model_wants_are_removable_and_each_says_why() -> None:
    fleet = a_fleet(
        an_introduction(
            weights=(
                cached(WANTED),
                cached(OTHER),
                cached("hf://org/repo/partial.gguf", complete=False),
                Holding(path="/mnt/models/own.gguf"),
            )
        )
    )

    found = stocks(wanting(WANTED), fleet)

    assert {(stock.why, stock.removable) for stock in found} == {
        ("wanted by m0", False),
        ("no model of the catalog wants it", True),
        ("an unfinished download that no model of the catalog wants", True),
        ("an operator's own; llmgw removes only what it fetched", False),
    }
    assert found[0].models == ("m0",)
    asked, refused = asked_for(found, {"n1"})
    assert asked == {
        "n1": tuple(
            stock.holding.cache_name for stock in found if stock.removable and stock.holding.cache_name
        )
    }
    assert refused == ()


def test_a_partial_of_what_a_model_wants_stays() -> None:
    fleet = a_fleet(an_introduction(weights=(cached(WANTED, complete=False),)))

    found = stocks(wanting(WANTED), fleet)

    assert asked_for(found, {"n1"}) == ({}, ())
    assert [stock.why for stock in found] == ["an unfinished download, wanted by m0"]


def test_an_operators_file_is_wanted_by_its_path_or_by_the_source_that_it_was_found_for() -> None:
    own = Holding(path="/srv/own.gguf")
    found_for = Holding(path="/mnt/org/repo/wanted.gguf", source=WANTED)
    fleet = a_fleet(an_introduction(weights=(own, found_for)))

    found = stocks(wanting("file:///srv/own.gguf", WANTED), fleet)

    assert {stock.holding.path: stock.models for stock in found} == {
        "/srv/own.gguf": ("m0",),
        "/mnt/org/repo/wanted.gguf": ("m1",),
    }


def test_what_lies_on_a_shared_filer_is_one_thing_and_one_connected_node_is_asked_to_remove_it() -> None:
    def seen_at(mount: str) -> tuple[Holding, ...]:
        name = cache_name_of(OTHER) or ""
        path = f"{mount}/cache/{name}"
        return (Holding(path=path, cache_name=name, shared=True, device="filer:/m", mount=mount),)

    fleet = a_fleet(
        an_introduction("n1", weights=seen_at("/mnt/a")), an_introduction("n2", weights=seen_at("/mnt/b"))
    )

    found = stocks(wanting(), fleet)

    assert [stock.nodes for stock in found] == [("n1", "n2")]
    assert asked_for(found, {"n2"})[0] == {"n2": (cache_name_of(OTHER),)}
    assert asked_for(found, set())[0] == {"n1": (cache_name_of(OTHER),)}
    assert asked_for(found, {"n1", "n2"}, nodes=["n3"])[0] == {}


def test_the_same_path_on_two_nodes_own_disks_is_two_things() -> None:
    fleet = a_fleet(
        an_introduction("n1", weights=(cached(OTHER),)), an_introduction("n2", weights=(cached(OTHER),))
    )

    found = stocks(wanting(), fleet)

    assert [stock.nodes for stock in found] == [("n1",), ("n2",)]
    assert set(asked_for(found, {"n1", "n2"})[0]) == {"n1", "n2"}


def test_of_names_that_are_asked_for_wanted_ones_are_refused_and_unknown_ones_are_the_nodes_to_judge() -> (
    None
):
    fleet = a_fleet(an_introduction("n1", weights=(cached(WANTED), cached(OTHER))), an_introduction("n2"))
    wanted, other = cache_name_of(WANTED) or "", cache_name_of(OTHER) or ""

    asked, refused = asked_for(stocks(wanting(WANTED), fleet), {"n1", "n2"}, [wanted, other, ".."])

    assert asked == {"n1": (other, ".."), "n2": ("..",)}
    assert [(one.node, one.refused) for one in refused] == [(None, {wanted: "wanted by m0"})]


def test_the_query_of_a_signed_url_is_shown_nowhere() -> None:
    source = "https://host/m.gguf?sig=secret"
    fleet = a_fleet(an_introduction(weights=(cached(source, source=source),)))

    [stock] = stocks(wanting(source), fleet)

    assert stock.models == ("m0",)
    assert stock.holding.source == "https://host/m.gguf?..."


def test_a_fabric_holds_what_its_attached_nodes_hold_and_nothing_of_another() -> None:
    def on(fabric: str, *, attached: bool = True) -> Machine:
        return Machine(fabrics=(Fabric(name=fabric, adapter="mlx5_0", attached=attached),))

    fleet = a_fleet(
        an_introduction("n1", machine=on("ib-a"), weights=(cached(WANTED), cached(OTHER, complete=False))),
        an_introduction("n2", machine=on("ib-a", attached=False), weights=(cached(OTHER),)),
        an_introduction("n3", machine=on("ib-b")),
    )

    a, b = fabric_stocks(wanting(WANTED), fleet)

    assert (a.name, a.nodes, a.detached) == ("ib-a", ("n1",), ("n2",))
    assert [stock.holding.cache_name for stock in a.stocks] == [cache_name_of(WANTED)]
    assert (b.name, b.nodes, b.stocks) == ("ib-b", ("n3",), ())
