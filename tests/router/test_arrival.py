"""A request while it arrives."""

from fakes.clock import FakeClock
from fakes.gateway import key_record
from fakes.http_client import KEY

from llmgw.core.accounts.access import digest_of
from llmgw.router.arrival import Arrival
from llmgw.router.authenticate import Authenticator
from llmgw.router.proxy import RequestHead

BEARER = (b"authorization", b"Bearer " + KEY.encode())


def arriving(*headers: tuple[bytes, bytes], most_bytes: int = 10) -> Arrival:
    authenticator = Authenticator(FakeClock())
    authenticator.set_keys({digest_of(KEY): key_record()})
    return Arrival(RequestHead(headers), dict(headers).get(b"content-length"), authenticator, most_bytes)


def status(arrival: Arrival) -> int | None:
    return None if arrival.refusal is None else arrival.refusal.status


def test_the_key_is_checked_before_the_coding_and_the_coding_before_the_length() -> None:
    coded, long = (b"content-encoding", b"gzip"), (b"content-length", b"99")

    assert status(arriving(coded, long)) == 401
    assert status(arriving(BEARER, coded, long)) == 415
    assert status(arriving(BEARER, long)) == 413
    assert status(arriving(BEARER)) is None


def test_a_body_in_one_piece_is_used_as_it_is() -> None:
    arrival = arriving(BEARER)
    piece = b"0123456789"

    arrival.take(piece)

    assert arrival.body is piece


def test_pieces_are_put_together() -> None:
    arrival = arriving(BEARER)

    for piece in (b"01", b"23", b"45"):
        arrival.take(piece)

    assert arrival.body == b"012345"


def test_a_body_that_passes_the_limit_is_refused_and_forgotten() -> None:
    arrival = arriving(BEARER)

    arrival.take(b"012345")
    arrival.take(b"6789")
    before = status(arrival)
    arrival.take(b"!")
    arrival.take(b"more")

    assert (before, status(arrival)) == (None, 413)
    assert arrival.body == b""


def test_a_body_that_is_too_large_is_told_both_sizes_in_bytes() -> None:
    said, unsaid = arriving(BEARER, (b"content-length", b"11")), arriving(BEARER)

    unsaid.take(b"0123456789!")

    at_most = "; at most 10 bytes (10 B) are taken; send less, or have the operator raise router.max_body"
    assert [a.refusal and a.refusal.message for a in (said, unsaid)] == [
        f"the request body is 11 bytes long (Content-Length){at_most}",
        f"the request body has not ended after 10 bytes{at_most}",
    ]


def test_identity_is_no_coding() -> None:
    assert status(arriving(BEARER, (b"content-encoding", b" Identity "))) is None
