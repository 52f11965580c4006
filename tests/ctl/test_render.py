from llmgw.ctl.render import age, counts, facts, listed, moment, part, plain, shown, table

HEADER = ["NAME", "STATE", "WHY"]
ROWS = [["a", "ready", None], ["bbbbbb", "failed", "the file is not there, and nobody knows where it went"]]


def test_columns_are_aligned_and_the_unknown_is_a_dash() -> None:
    assert table(HEADER, ROWS).splitlines() == [
        "NAME    STATE   WHY",
        "a       ready   -",
        "bbbbbb  failed  the file is not there, and nobody knows where it went",
    ]


def test_a_narrow_terminal_wraps_the_last_column() -> None:
    assert table(HEADER, ROWS, width=46).splitlines() == [
        "NAME    STATE   WHY",
        "a       ready   -",
        "bbbbbb  failed  the file is not there, and",
        "                nobody knows where it went",
    ]


def test_a_terminal_too_narrow_to_wrap_gets_whole_lines() -> None:
    assert table(HEADER, ROWS, width=30) == table(HEADER, ROWS)


def test_states_are_tinted_only_when_asked_and_keep_their_columns() -> None:
    tinted = table(HEADER, ROWS, color=True)

    assert "a       \x1b[32mready\x1b[0m   -" in tinted
    assert tinted.replace("\x1b[32m", "").replace("\x1b[31m", "").replace("\x1b[0m", "") == table(
        HEADER, ROWS
    )


def test_control_characters_are_spelt_out() -> None:
    assert plain("a\x1b[2J\nb\u202ec") == "a\\x1b[2J\\nb\\u202ec"


def test_nothing_known_differs_from_none() -> None:
    assert (shown(None), shown([]), shown(0), shown(["a", "b"])) == ("-", "none", "0", "a, b")
    assert (age(None), age(5.0), part(None, None), part(None, 1024)) == ("-", "5 s", "-", "- of 1.0 KiB")
    assert (moment(None), moment("2030-01-01T12:30:15Z")) == ("-", "2030-01-01 12:30")
    assert (counts({}), counts({"ready": 2, "lost": 1})) == ("none", "2 ready, 1 lost")


def test_facts_and_lists_are_indented() -> None:
    assert facts([("a", 1), ("long", None)]) == "a     1\nlong  -"
    assert listed("things", ["x", "y"]) == "things:\n  x\n  y"
