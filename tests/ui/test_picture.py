from typing import Any

from llmgw.ui.picture import Fragment, Picture, Shown, unless


class Drawn:
    """Renders a fragment as its id and value, and counts how often."""

    def __init__(self) -> None:
        self.count = 0

    def __call__(self, template: str, id: str, value: Any) -> str:
        self.count += 1
        return f"<{template} {id}>{value}"


def shown(*rows: tuple[str, int], title: str = "Cluster", head: str = "all is well") -> Shown:
    fragments = tuple(Fragment(id, "row", value) for id, value in rows)
    return Shown(title=title, parts=(Fragment("head", "part", head),), lists={"rows": fragments})


def a_picture() -> tuple[Picture, Drawn]:
    drawn = Drawn()
    return Picture(drawn, "p"), drawn


def take(picture: Picture, what: Shown) -> int:
    """Take what is shown, and count the steps."""
    return sum(1 for _ in picture.take(what))


def test_a_page_is_told_nothing_while_nothing_changes() -> None:
    picture, drawn = a_picture()
    take(picture, shown(("a", 1), ("b", 2)))

    revision = picture.revision
    take(picture, shown(("a", 1), ("b", 2)))

    assert picture.since(revision) is None
    assert drawn.count == 3


def test_only_what_changed_is_rendered_and_told() -> None:
    picture, drawn = a_picture()
    take(picture, shown(("a", 1), ("b", 2)))
    revision = picture.revision

    take(picture, shown(("a", 1), ("b", 3)))
    patch = picture.since(revision)

    assert patch is not None
    assert patch.parts == {"b": "<row b>3"}
    assert patch.lists == {}
    assert drawn.count == 4


def test_an_element_that_comes_or_goes_is_told_with_the_order_of_its_list() -> None:
    picture, _ = a_picture()
    take(picture, shown(("a", 1), ("b", 2)))
    revision = picture.revision

    take(picture, shown(("c", 3), ("a", 1)))
    patch = picture.since(revision)

    assert patch is not None
    assert patch.parts == {"c": "<row c>3"}
    assert patch.lists == {"rows": ("c", "a")}


def test_another_order_of_the_same_elements_is_told_without_their_html() -> None:
    picture, _ = a_picture()
    take(picture, shown(("a", 1), ("b", 2)))
    revision = picture.revision

    take(picture, shown(("b", 2), ("a", 1)))
    patch = picture.since(revision)

    assert patch is not None
    assert (patch.parts, patch.lists) == ({}, {"rows": ("b", "a")})


def test_a_value_that_looks_the_same_is_no_change() -> None:
    picture = Picture(lambda template, id, value: str(value // 10), "p")
    take(picture, shown(("a", 11), head=1))  # type: ignore[arg-type] # any value will do
    revision = picture.revision

    take(picture, shown(("a", 12), head=2))  # type: ignore[arg-type] # any value will do

    assert picture.since(revision) is None


def test_what_is_half_rendered_is_not_told_yet() -> None:
    picture, _ = a_picture()
    take(picture, shown(("a", 1), ("b", 1)))
    revision = picture.revision

    steps = picture.take(shown(("a", 2), ("b", 2)))
    next(steps)
    early = picture.since(revision)
    left = sum(1 for _ in steps)

    assert early is None
    assert left == 1
    assert picture.since(revision) is not None


def test_viewers_of_different_revisions_are_each_told_what_they_lack() -> None:
    picture, _ = a_picture()
    take(picture, shown(("a", 1), ("b", 1)))
    first = picture.revision
    take(picture, shown(("a", 2), ("b", 1)))
    second = picture.revision
    take(picture, shown(("a", 2), ("b", 2)))

    late, early = picture.since(first), picture.since(second)

    assert late is not None
    assert early is not None
    assert (set(late.parts), set(early.parts)) == ({"a", "b"}, {"b"})


def test_a_revision_of_another_picture_or_none_gets_everything() -> None:
    picture, _ = a_picture()
    take(picture, shown(("a", 1)))

    for revision in (None, "", "other.1", "p.", "p.x", "p.0"):
        patch = picture.since(revision)
        assert patch is not None
        assert (set(patch.parts), patch.lists) == ({"head", "a"}, {"rows": ("a",)})


def test_a_new_title_alone_is_told() -> None:
    picture, _ = a_picture()
    take(picture, shown(("a", 1)))
    revision = picture.revision

    take(picture, shown(("a", 1), title="Other"))
    patch = picture.since(revision)

    assert patch is not None
    assert (patch.title, patch.parts, patch.lists) == ("Other", {}, {})


def test_the_frame_gets_parts_and_whole_lists() -> None:
    picture, _ = a_picture()
    take(picture, shown(("a", 1), ("b", 2)))

    assert picture.part("head") == "<part head>all is well"
    assert picture.rows("rows") == "<row a>1<row b>2"


def test_an_empty_list_has_words_and_an_unknown_one_has_none() -> None:
    assert unless((), "nothing") == "nothing"
    assert unless((1,), "nothing") is None
    assert unless(None, "nothing") is None
