import json

from fakes.operations import FakeOperations

CATALOG = """
models:
  - name: fresh
    profiles:
      - name: cpu
        engine: llama.cpp
        weights: file:///srv/models/fresh.gguf
        min_memory_gb: 16
      - name: gang
        engine: llama.cpp
        weights: hf://lab/fresh/fresh.gguf
        gpus: 2
        gpu_class: h100
        min_disk_gb: 3
        nodes: 2
        fabric: any
"""


def test_a_catalog_that_is_not_applied_is_explained_and_nothing_changes(
    ctl, operations: FakeOperations
) -> None:
    before = operations.catalog()

    result = ctl("explain", "fresh", "--dry-run", "-f", "-", input=CATALOG)

    assert (result.exit_code, result.stderr) == (0, "")
    assert "fresh: 0 of 1 ready\n" in result.stdout
    assert "needs:\n  cpu: 16.0 GiB of memory (given)\n" in result.stdout
    assert (
        ", 2 GPUs of class h100 whole, 3.0 GiB of disk where the weights are not yet, 2 nodes on fabric any\n"
        in result.stdout
    )
    assert "one more replica now would go to " in result.stdout
    assert operations.catalog() == before


def test_a_profile_whose_memory_nobody_knows_is_said_to_be_unknown_and_not_passed_over(ctl) -> None:
    catalog = "models: [{name: new, profiles: [{name: p, engine: llama.cpp, weights: 'hf://a/b/c.gguf'}]}]"

    result = ctl("explain", "new", "--dry-run", "-f", "-", input=catalog)

    assert "needs:\n  p: main memory unknown (not given, and nobody has told of the weights" in result.stdout


def test_the_json_of_an_explanation_is_the_apis(ctl) -> None:
    result = ctl("explain", "fresh", "--dry-run", "-f", "-", "--json", input=CATALOG)

    found = json.loads(result.stdout)
    assert (found["model"], found["next"]["profile"]) == ("fresh", "cpu")
    assert {(one["profile"], one["memory_said"]) for one in found["needs"]} == {
        ("cpu", "given"),
        ("gang", None),
    }
    assert {one["verdict"]["rule"] for one in found["nodes"] if not one["fits"]} <= {
        "state",
        "fabric",
        "memory",
    }


def test_a_model_that_the_file_does_not_have_is_said_to_be_unknown(ctl) -> None:
    result = ctl("explain", "other", "--dry-run", "-f", "-", input=CATALOG)

    assert (result.exit_code, result.stdout) == (1, "")
    assert "no model is called 'other'" in result.stderr


def test_problems_of_the_file_are_shown_with_their_lines(ctl) -> None:
    result = ctl("explain", "fresh", "--dry-run", "-f", "-", input=CATALOG.replace("gpus: 2", "gpus: 0"))

    assert result.exit_code == 1
    assert "standard input:13" in result.stderr
    assert "asks something of GPUs" in result.stderr


def test_dry_run_and_a_file_go_together(ctl) -> None:
    alone, without = ctl("explain", "gemma", "--dry-run"), ctl("explain", "gemma", "-f", "x.yaml")

    assert (alone.exit_code, without.exit_code) == (2, 2)
    assert "--dry-run and -f go together" in alone.stderr
    assert "llmgw ctl explain MODEL --dry-run -f catalog.yaml" in without.stderr
