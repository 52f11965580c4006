from pathlib import Path

import pytest

from llmgw.config.load import parse_yaml, problems_text, read_yaml
from llmgw.core.errors import BadInput, Problem


def refusal(content: bytes) -> str:
    with pytest.raises(BadInput) as caught:
        parse_yaml(content, "some.yaml")
    return str(caught.value)


def test_every_key_and_item_has_its_line() -> None:
    document = parse_yaml(
        b"models:\n  - name: a\n    profiles:\n      - engine: x\n  - name: b\n", "some.yaml"
    )

    assert document.data == {"models": [{"name": "a", "profiles": [{"engine": "x"}]}, {"name": "b"}]}
    assert document.line_of(("models", 0, "profiles", 0, "engine")) == 4
    assert document.line_of(("models", 1)) == 5
    assert document.line_of(("models", 1, "profiles", 7)) == 5
    assert document.line_of(()) == 1


def test_problems_are_shown_with_file_and_line_in_the_order_of_the_file() -> None:
    document = parse_yaml(b"a: 1\nb:\n  c: 2\n", "some.yaml")
    problems = [Problem(("b", "c"), "second"), Problem(("a",), "first")]

    assert problems_text(document, problems) == "some.yaml:1: a: first\nsome.yaml:3: b.c: second"


def test_plain_words_that_yaml_once_took_for_truths_times_and_octals_stay_what_they_look_like() -> None:
    document = parse_yaml(
        b"no: on\nat: 12:30\nday: 2026-01-02\nmode: 010\nyes: true\nn: null\nf: 1.5\nbig: 1e3\nx: 0x1F\n",
        "some.yaml",
    )

    assert document.data == {
        "no": "on",
        "at": "12:30",
        "day": "2026-01-02",
        "mode": 10,
        "yes": True,
        "n": None,
        "f": 1.5,
        "big": 1000.0,
        "x": "0x1F",
    }


def test_an_empty_file_and_one_of_comments_are_an_empty_mapping() -> None:
    assert parse_yaml(b"", "some.yaml").data == {}
    assert parse_yaml(b"# data_dir: /srv\n", "some.yaml").data == {}


def test_a_byte_order_mark_is_no_part_of_the_first_key() -> None:
    assert parse_yaml(b"\xef\xbb\xbfa: 1\n", "some.yaml").data == {"a": 1}


def test_merged_keys_yield_to_the_mappings_own() -> None:
    document = parse_yaml(b"base: &b {x: 1, y: 2}\nown:\n  <<: *b\n  y: 3\n", "some.yaml")

    assert document.data["own"] == {"x": 1, "y": 3}
    assert document.line_of(("own", "y")) == 4


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"- a\n", "some.yaml:1: wanted a mapping (key: value lines), found a list"),
        (b"\njust words\n", "some.yaml:2: wanted a mapping (key: value lines), found 'just words'"),
        (b"a: 1\nb: 2\na: 3\n", "some.yaml:3: the key 'a' comes twice here, first on line 1; keep one"),
        (b"a:\n\tb: 1\n", "some.yaml:2: a tab indents this line; indent with spaces"),
        (b"a: 1\nb: \xff\n", "some.yaml:2: wanted UTF-8 text, found byte 0xff; save the file as UTF-8"),
        (b"a: 1\nb: \x07\n", "some.yaml:2: wanted text, found the control character 7"),
        (b"a: !!python/name:os.x y\n", "some.yaml:1: the tag '!!python/name:os.x' means nothing here; leave it out"),
        (
            b"a: 1\n---\nb: 2\n",
            "some.yaml:2: not YAML: expected a single document in the stream, but found another document",
        ),
        (
            b"a: b: c\n",
            "some.yaml:1: not YAML: mapping values are not allowed here; "
            "indent this line as its neighbours are, or quote a value that has ': ' in it",
        ),
        (b"{{ name }}: 1\n", "some.yaml:1: wanted a key, found a mapping; quote text that begins with { or ["),
        (b"a: &x [*x]\n", "some.yaml:1: nested more than 64 deep, or an alias that contains itself"),
        (b"a:\n  <<: 3\n", "some.yaml:2: '<<' wants a mapping to take over, found '3'"),
        (b"a: *b\n", "some.yaml:1: not YAML: found undefined alias 'b'"),
    ],
)  # fmt: skip
def test_what_cannot_be_read_is_refused_with_file_and_line(content: bytes, message: str) -> None:
    assert refusal(content) == message


def test_aliases_that_multiply_are_refused() -> None:
    lines = [b"a0: &a0 [x, x, x, x, x, x, x, x, x]"]
    for i in range(1, 9):
        lines.append(b"a%d: &a%d [%s]" % (i, i, b", ".join([b"*a%d" % (i - 1)] * 9)))

    assert "the aliases expand this file to more than 200000 values" in refusal(b"\n".join(lines))


def test_deep_nesting_is_refused() -> None:
    assert "nested too deeply" in refusal(b"a: " + b"[" * 5000)


def test_a_file_of_many_megabytes_is_refused() -> None:
    assert refusal(b"#" * (8 * 1024**2 + 1)) == "some.yaml: larger than 8 MiB, which no file of ours is"


def test_a_missing_file_and_a_folder_are_refused_in_words(tmp_path: Path) -> None:
    with pytest.raises(BadInput, match=r"none\.yaml: cannot be read: No such file or directory"):
        read_yaml(tmp_path / "none.yaml")
    with pytest.raises(BadInput, match=r"cannot be read: Is a directory"):
        read_yaml(tmp_path)
