"""Warnings that a peer can cause."""

import logging

import pytest

from llmgw.agent.complaints import MOST_KINDS, Complaints

LOG = logging.getLogger("test.complaints")


def test_a_kind_is_written_once_a_minute_and_says_how_many_were_left_out(
    caplog: pytest.LogCaptureFixture,
) -> None:
    complaints = Complaints(LOG)

    for now in (0.0, 1.0, 59.0, 60.0):
        complaints.say("kind", f"at {now:g}", now)
    complaints.say("other", "another", 60.0)

    assert caplog.messages == ["at 0", "at 60 (and 2 more like it)", "another"]


def test_a_kind_may_be_written_once_for_ever(caplog: pytest.LogCaptureFixture) -> None:
    complaints = Complaints(LOG, every_s=None)

    complaints.say("tag", "unknown", 0.0)
    complaints.say("tag", "unknown", 1e9)

    assert caplog.messages == ["unknown"]


def test_kinds_are_bounded(caplog: pytest.LogCaptureFixture) -> None:
    complaints = Complaints(LOG, every_s=None)

    for number in range(MOST_KINDS + 1):
        complaints.say(f"tag {number}", "unknown", 0.0)
    complaints.say("tag 0", "again", 0.0)

    assert caplog.messages[-1] == "again"
