import json
from datetime import timedelta

from fakes.operations import FakeOperations

from llmgw.core.accounts.access import Scope, digest_of


def test_the_key_alone_goes_to_standard_output_and_what_it_is_to_standard_error(
    ctl, operations: FakeOperations
) -> None:
    result = ctl("keys", "create", "me")

    assert result.exit_code == 0
    assert digest_of(result.stdout.removesuffix("\n")) == operations.records[0].digest
    assert result.stderr == "key 1 'me' for inference, all models, does not expire; it is not shown again\n"


def test_a_key_may_be_bound_to_scope_models_and_time(ctl, operations: FakeOperations) -> None:
    result = ctl(
        "keys", "create", "ops", "--scope", "admin", "--model", "qwen", "--model", "small", "--expires", "90d"
    )

    record = operations.records[0]
    assert (record.scope, record.models) == (Scope.ADMIN, ("qwen", "small"))
    assert record.expires_at == operations.clock.at() + timedelta(days=90)
    assert "for admin, qwen, small, expires 2030-04-01 00:01 UTC" in result.stderr


def test_keys_are_listed_without_themselves(ctl) -> None:
    keys = [ctl("keys", "create", name).stdout.strip() for name in ("me", "you")]
    ctl("keys", "revoke", "2")

    result = ctl("keys", "list")

    assert result.stdout == (
        "ID  NAME  KEY             SCOPE      STATE    CREATED           EXPIRES  MODELS\n"
        "1   me    sk-llmgw-0000…  inference  active   2030-01-01 00:01  -        all models\n"
        "2   you   sk-llmgw-0001…  inference  revoked  2030-01-01 00:01  -        all models\n"
    )
    assert not any(key in ctl("--json", "keys", "list").stdout for key in keys)


def test_no_key_says_how_to_make_one(ctl) -> None:
    assert ctl("keys", "list").stdout == "no key; make one with 'llmgw ctl keys create NAME'\n"


def test_a_key_is_revoked_by_its_id(ctl, operations: FakeOperations) -> None:
    ctl("keys", "create", "me")

    result = ctl("keys", "revoke", "1", "--json")

    assert json.loads(result.stdout)["state"] == "revoked"
    assert operations.records[0].revoked_at == operations.clock.at()


def test_a_key_that_is_not_there_is_refused(ctl) -> None:
    result = ctl("keys", "revoke", "9")

    assert (result.exit_code, result.stderr) == (1, "llmgw: no key has the id 9\n")


def test_a_time_that_is_none_is_a_wrong_command_line(ctl, operations: FakeOperations) -> None:
    result = ctl("keys", "create", "me", "--expires", "soon")

    assert result.exit_code == 2
    assert "wanted --expires as a time such as 90d or 12h, found 'soon'" in result.stderr
    assert operations.records == []


def test_a_model_that_nobody_knows_is_refused_with_the_nearest(ctl, operations: FakeOperations) -> None:
    result = ctl("keys", "create", "me", "--model", "gema", "--model", "qwen")

    assert (result.exit_code, result.stdout) == (1, "")
    assert result.stderr == (
        "llmgw: the key was not made: no model is called 'gema', did you mean 'gemma'?\n"
    )
    assert operations.records == []


def test_what_is_wrong_with_a_key_is_said(ctl, operations: FakeOperations) -> None:
    late = ctl("keys", "create", "me", "--expires", "99999999d")

    assert late.exit_code == 1
    assert late.stderr.startswith(
        "llmgw: the key cannot be made; expires_in_s: wanted more than 0 and at most 100 years in seconds"
    )
    assert operations.records == []
