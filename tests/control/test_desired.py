from datetime import timedelta

from fakes.catalogs import a_catalog, a_model
from fakes.fleets import AT

from llmgw.control.desired import Desired

LATER = AT + timedelta(days=1)


def test_models_that_stay_keep_the_time_they_entered_and_new_ones_get_theirs() -> None:
    desired = Desired(a_catalog(a_model("a"), a_model("b")), {"a": AT, "b": AT})

    desired.take(a_catalog(a_model("b"), a_model("c")), LATER)

    assert desired.created == {"b": AT, "c": LATER}
    assert [model.name for model in desired.catalog.models] == ["b", "c"]


def test_who_listens_is_woken_by_every_change() -> None:
    woken = []
    desired = Desired(a_catalog(), {})
    desired.listen(lambda: woken.append(desired.catalog))

    desired.take(a_catalog(a_model()), AT)

    assert woken == [a_catalog(a_model())]
