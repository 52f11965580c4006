import json
from pathlib import Path

from fakes.operations import FakeOperations

from llmgw.core.fleet.catalog import Catalog

CATALOG = """models:
  - name: gemma
    replicas: 3
    profiles:
      - {name: cpu, engine: llama.cpp, weights: file:///srv/models/gemma.gguf}
  - name: new
    fallback: [qwen]
    profiles:
      - {name: cpu, engine: llama.cpp, weights: file:///srv/models/new.gguf}
"""


def write(text: str) -> str:
    Path("catalog.yaml").write_text(text)
    return "catalog.yaml"


def test_an_apply_says_what_became_of_each_model(ctl, operations: FakeOperations) -> None:
    result = ctl("apply", "-f", write(CATALOG))

    assert (result.exit_code, result.stderr) == (0, "")
    assert result.stdout == (
        "created new\n"
        "changed gemma\n"
        "kept qwen (not in catalog.yaml; --prune would remove it)\n"
        "kept resting (not in catalog.yaml; --prune would remove it)\n"
    )
    assert [model.name for model in operations.wanted.models] == ["gemma", "new", "qwen", "resting"]


def test_a_second_apply_changes_nothing(ctl) -> None:
    ctl("apply", "-f", write(CATALOG))

    result = ctl("apply", "-f", "catalog.yaml")

    assert result.stdout.startswith("unchanged gemma\nunchanged new\n")


def test_a_dry_run_shows_the_same_and_changes_nothing(ctl, operations: FakeOperations) -> None:
    before = operations.wanted

    result = ctl("apply", "-f", write(CATALOG), "--dry-run")

    assert result.exit_code == 0
    assert result.stdout.startswith("created new\nchanged gemma\n")
    assert result.stderr == "dry run: nothing was changed\n"
    assert operations.wanted == before


def test_a_prune_removes_what_the_file_does_not_name(ctl, operations: FakeOperations) -> None:
    result = ctl("apply", "-f", write(CATALOG.replace("    fallback: [qwen]\n", "")), "--prune")

    assert result.stdout == "created new\nchanged gemma\nremoved qwen\nremoved resting\n"
    assert [model.name for model in operations.wanted.models] == ["gemma", "new"]


def test_a_catalog_may_come_from_standard_input(ctl, operations: FakeOperations) -> None:
    result = ctl("apply", "-f", "-", input=CATALOG)

    assert "kept qwen (not in standard input; --prune would remove it)" in result.stdout
    assert operations.wanted.model("new") is not None


def test_what_is_wrong_in_the_file_is_shown_by_line_without_asking_a_server(ctl) -> None:
    path = write("models:\n  - name: gemma\n    replica: 1\n    profiles: []\n")

    result = ctl("apply", "-f", path, server="127.0.0.1:1")

    assert (result.exit_code, result.stdout) == (1, "")
    assert result.stderr == (
        "catalog.yaml:3: models[0].replica: unknown key 'replica'; did you mean 'replicas'?\n"
        "catalog.yaml: 1 problem; nothing was changed\n"
    )


def test_what_only_the_server_knows_is_shown_by_line_too(ctl, operations: FakeOperations) -> None:
    before = operations.wanted
    path = write(
        CATALOG.replace("name: cpu, engine: llama.cpp", "name: cpu, engine: lama.cpp", 1).replace(
            "[qwen]", "[q]"
        )
    )

    result = ctl("apply", "-f", path)

    assert (result.exit_code, result.stdout) == (1, "")
    assert result.stderr == (
        "catalog.yaml:5: models[0].profiles[0].engine: no engine is called 'lama.cpp'; did you mean 'llama.cpp'?\n"
        "catalog.yaml:7: models[1].fallback[0]: no model is called 'q'; known: gemma, new, qwen, resting\n"
        "catalog.yaml: 2 problems; nothing was changed\n"
    )
    assert operations.wanted == before


def test_a_refusal_is_json_where_json_was_asked_for_whoever_found_it(ctl) -> None:
    here = ctl("--json", "apply", "-f", write("models:\n  - nme: gemma\n"), server="127.0.0.1:1")
    there = ctl("apply", "--json", "-f", write(CATALOG.replace("llama.cpp", "lama.cpp")))

    for result, path in ((here, ["models", 0, "nme"]), (there, ["models", 0, "profiles", 0, "engine"])):
        error = json.loads(result.stdout)["error"]
        assert (result.exit_code, error["code"]) == (1, "bad_input")
        assert error["problems"][0]["path"] == path


def test_a_file_that_is_not_there_or_not_yaml_is_refused_in_words(ctl) -> None:
    missing = ctl("apply", "-f", "none.yaml")
    broken = ctl("apply", "-f", write("models:\n\t- name: x\n"))

    assert (missing.exit_code, broken.exit_code) == (1, 1)
    assert missing.stderr == "none.yaml: cannot be read: No such file or directory\n"
    assert broken.stderr == "catalog.yaml:2: a tab indents this line; indent with spaces\n"


def test_an_empty_file_does_not_empty_the_catalog(ctl, operations: FakeOperations) -> None:
    refused = ctl("apply", "-f", write("# nothing\n"), "--prune")
    meant = ctl("apply", "-f", write("models: []\n"), "--prune")

    assert refused.exit_code == 1
    assert (
        refused.stderr == "catalog.yaml:1: 'models' is missing; an empty catalog is written as 'models: []'\n"
    )
    assert meant.stdout == "removed gemma\nremoved qwen\nremoved resting\n"
    assert operations.wanted == Catalog()


def test_a_file_must_be_named(ctl) -> None:
    assert ctl("apply").exit_code == 2
