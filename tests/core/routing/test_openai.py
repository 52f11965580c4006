"""The part of OpenAI's protocol that the router reads and writes."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from llmgw.core.routing.openai import (
    Asked,
    Refused,
    error_body,
    error_event,
    model_list,
    model_object,
    read_request,
    shown,
)
from llmgw.core.routing.table import ModelRoute


def refused(body: bytes) -> Refused:
    found = read_request(body)
    assert isinstance(found, Refused)
    return found


@pytest.mark.parametrize(
    ("body", "asked"),
    [
        (b'{"model": "a"}', Asked("a", False)),
        (b' {"stream" : true, "model":"a\\u00fc", "x": [1, {}]}\n', Asked("aü", True)),
        (b'{"model": "a", "stream": null}', Asked("a", False)),
        (b'{"model": "a", "stream": "yes"}', Asked("a", False)),
        (b'{"model": "a", "messages": 7, "text": "\xff"}', Asked("a", False)),
        (bytearray(b'{"model": "a"}'), Asked("a", False)),
    ],
)
def test_only_what_is_needed_is_read(body: bytes, asked: Asked) -> None:
    assert read_request(body) == asked


@pytest.mark.parametrize(
    ("body", "found"),
    [
        (b"", "is empty"),
        (b"{", "is no complete and valid JSON: Input data was truncated; 1 bytes of it came"),
        (b"\xef\xbb\xbf{}", "is no complete and valid JSON"),
        (b"[1]", "is JSON but not an object"),
        (b"7", "is JSON but not an object"),
        (b'{"a":' * 100_000, "nested too deeply"),
    ],
)
def test_a_body_that_is_no_object_is_refused_with_what_was_found(body: bytes, found: str) -> None:
    found_refused = refused(body)

    assert found_refused.status == 400
    assert found in found_refused.message


@pytest.mark.parametrize(
    ("body", "found"),
    [
        (b"{}", "'model' is missing"),
        (b'{"model": null}', "'model' is missing"),
        (b'{"model": ""}', "'model' is ''"),
        (b'{"model": 7}', "'model' is a number"),
        (b'{"model": ["a"]}', "'model' is an array"),
        (b'{"model": {"a": 1}}', "'model' is an object"),
        (b'{"model": true}', "'model' is a boolean"),
        (b'{"model": 1.5}', "'model' is a number"),
    ],
)
def test_a_body_without_a_model_is_refused_and_names_the_field(body: bytes, found: str) -> None:
    assert refused(body).param == "model"
    assert found in refused(body).message


@given(st.binary(max_size=200))
def test_whatever_comes_is_read_or_refused(body: bytes) -> None:
    assert isinstance(read_request(body), Asked | Refused)


def test_what_a_client_sent_is_cut_before_it_is_shown() -> None:
    assert shown("a") == "'a'"
    assert len(shown("x" * 10_000_000)) <= 101


def test_an_error_has_the_four_fields() -> None:
    error = Refused(status=404, code="model_not_found", param="model", message='no "x"')

    assert json.loads(error_body(error)) == {
        "error": {
            "message": 'no "x"',
            "type": "invalid_request_error",
            "param": "model",
            "code": "model_not_found",
        }
    }
    assert error_event(error) == b"data: " + error_body(error) + b"\n\n"


def test_models_are_listed_as_objects() -> None:
    routes = (ModelRoute(name="a", created_s=7), ModelRoute(name="b"))

    assert model_list(routes) == {"object": "list", "data": [model_object(route) for route in routes]}
    assert model_object(routes[0]) == {"id": "a", "object": "model", "created": 7, "owned_by": "llmgw"}
