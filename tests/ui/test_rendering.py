from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from llmgw.ui import marks
from llmgw.ui.present.amounts import amount
from llmgw.ui.present.gpus import GpuCell
from llmgw.ui.present.node_rows import Tag
from llmgw.ui.rendering import Rendering, since, with_ages
from llmgw.ui.statics import Statics

AT = datetime(2030, 1, 1, tzinfo=UTC)


@pytest.fixture
def statics(tmp_path: Path) -> Statics:
    folder = tmp_path / "static"
    folder.mkdir()
    (folder / "page.css").write_text("body {}")
    (folder / "notes.txt").write_text("not for the browser")
    return Statics(folder)


@pytest.fixture
def rendering(tmp_path: Path, statics: Statics) -> Rendering:
    folder = tmp_path / "templates"
    folder.mkdir()
    (folder / "said.html").write_text("{{ v }}|{{ url('nodes', v) }}|{{ static('page.css') }}")
    return Rendering(folder, statics, prefix="/admin")


def test_what_nodes_say_is_escaped_and_urls_are_encoded_below_the_prefix(
    rendering: Rendering, statics: Statics
) -> None:
    html = rendering.render("said.html", v='<b a="1">&')

    served = statics.named("page.css")
    expected = "&lt;b a=&#34;1&#34;&gt;&amp;|/admin/nodes/%3Cb%20a%3D%221%22%3E%26|"
    assert html == f"{expected}/admin/static/{served}"


@pytest.mark.parametrize(
    ("name", "path"),
    [
        ("gpu-07.rack.example", "/admin/models/gpu-07.rack.example"),
        ("a:b+c", "/admin/models/a%3Ab%2Bc"),
        ("org/name", "/admin/models/org/name"),
        ("what?#50%", "/admin/models/what%3F%2350%25"),
    ],
)
def test_every_name_has_its_path(rendering: Rendering, name: str, path: str) -> None:
    assert rendering.url("models", name) == path


def test_an_age_is_filled_in_when_the_page_is_sent() -> None:
    html = f"<p>{since(AT)} and {since(None)}</p>"

    filled = with_ages(html, AT + timedelta(minutes=5))

    assert ">5 min</time>" in filled
    assert 'title="2030-01-01 00:00:00 UTC"' in filled
    assert '<span class="unknown">-</span>' in filled


def test_text_that_looks_like_an_age_stays_text(rendering: Rendering) -> None:
    html = rendering.render("said.html", v='<time data-s="1"></time>')

    assert with_ages(html, AT) == html


def test_a_static_file_has_a_name_of_its_content_and_others_are_none(
    statics: Statics, tmp_path: Path
) -> None:
    named = statics.named("page.css")
    (tmp_path / "static" / "page.css").write_text("body { margin: 0 }")
    later = Statics(tmp_path / "static")

    found = statics.find(named)

    assert found is not None
    assert (found.content, found.media_type) == (b"body {}", "text/css")
    assert later.find(named) is None
    assert later.named("page.css") != named
    assert later.build != statics.build
    assert statics.find("notes.txt") is None
    with pytest.raises(KeyError):
        statics.named("notes.txt")


def test_bars_say_how_full_something_is_and_nothing_of_the_unknown() -> None:
    assert 'class="fill" width="37"' in marks.bar(37)
    assert "full" in marks.bar(90)
    assert "full" not in marks.bar(89)
    assert marks.bar(None) == ""


def test_a_strip_has_a_cell_a_gpu_filled_as_far_as_its_memory() -> None:
    drawn = marks.strip((GpuCell(state="ours", used_percent=100), GpuCell(state="free", used_percent=None)))

    assert drawn.count('class="cell') == 2
    assert drawn.count('class="level') == 1
    assert 'class="level g-ours" x="0.5" y="0.5" width="6" height="15"' in drawn
    assert 'width="16"' in drawn


def test_the_unknown_is_a_dash_and_what_cannot_be_used_says_so_without_colour() -> None:
    assert marks.free(amount(None, None)) == '<span class="unknown">-</span>'
    assert "1.0 GiB" in marks.free(amount(2**30, None))
    assert marks.tags(None) == '<span class="unknown">-</span>'
    assert "none" in marks.tags(())
    shown = marks.tags((Tag(text="<b>", problem='"no"'),))
    assert "&lt;b&gt;" in shown
    assert 'title="&#34;no&#34;"' in shown
    assert "(not usable)" in shown
