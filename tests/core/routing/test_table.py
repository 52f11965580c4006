from llmgw.core.routing.table import ModelRoute, RouteTable, build_table


def test_a_model_is_found_by_its_name_and_its_aliases() -> None:
    gemma = ModelRoute(name="gemma", aliases=("small", "tiny"))

    table = build_table((gemma,))

    assert table.by_name == {"gemma": gemma, "small": gemma, "tiny": gemma}


def test_a_models_own_name_wins_over_an_alias_of_another_in_either_order() -> None:
    greedy, own = ModelRoute(name="a", aliases=("b",)), ModelRoute(name="b")

    for routes in ((greedy, own), (own, greedy)):
        assert build_table(routes).by_name["b"] is own


def test_each_model_is_listed_once() -> None:
    routes = (ModelRoute(name="a", aliases=("x",)), ModelRoute(name="b", aliases=("y", "z")))

    assert sorted(route.name for route in build_table(routes).models()) == ["a", "b"]
    assert RouteTable().models() == ()
