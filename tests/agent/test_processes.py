"""Telling processes apart."""

import pytest

from llmgw.agent.processes import Identity, Mark, boot_id, launch_name, parse_stat, session_of, signal_name
from llmgw.core.ids import Generation

LINE = "77 (a) b (c)) S 1 77 76 0 -1 4194560 1 2 3 4 5 6 7 8 20 0 1 0 123456 1000 2 3"


def test_a_name_with_blanks_and_brackets_does_not_shift_the_fields() -> None:
    stat = parse_stat(LINE)

    assert stat is not None
    assert (stat.pid, stat.state, stat.session, stat.start_ticks) == (77, "S", 76, 123456)


@pytest.mark.parametrize("text", ["", "77 (a", "77 (a) S 1", "x (a) " + "1 " * 30])
def test_what_is_no_stat_is_none(text: str) -> None:
    assert parse_stat(text) is None


def test_a_signal_is_named_if_it_has_a_name() -> None:
    assert (signal_name(9), signal_name(500)) == ("signal 9 (SIGKILL)", "signal 500")


def test_the_mark_names_state_folder_shard_and_generation() -> None:
    mark = Mark(state_dir="/srv/state", launch=launch_name("m.0.0", Generation(3, 7)))

    assert mark.variables() == {"LLMGW_ENGINE_OF": "/srv/state", "LLMGW_ENGINE": "m.0.0@3.7"}


@pytest.mark.parametrize("pid", [0, -1, 1, 2**31 - 1])
def test_a_pid_that_cannot_be_an_engine_has_no_session(pid: int) -> None:
    assert session_of(Identity(pid=pid, start_ticks=0, boot_id=boot_id())) == ()


def test_a_session_of_another_boot_is_empty() -> None:
    assert session_of(Identity(pid=2, start_ticks=0, boot_id="other")) == ()
