from llmgw.runtime.resources import packaged
from llmgw.runtime.selftest import DYNAMIC, file_problems, module_problems, own_modules


def test_own_modules_leave_out_what_alembic_and_engines_run_from_files() -> None:
    modules = own_modules()

    assert {"llmgw.core.ids", "llmgw.cli", "llmgw.engines.llamacpp"} <= set(modules)
    assert not [name for name in modules if name.startswith(("llmgw.__main__", "llmgw.agent.launchers"))]


def test_the_modules_that_others_import_by_name_are_there() -> None:
    assert module_problems(DYNAMIC) == []


def test_a_module_that_cannot_be_imported_is_named_with_the_reason() -> None:
    problems = module_problems(["json", "llmgw.no_such_module"])

    assert problems == [
        "llmgw.no_such_module cannot be imported: ModuleNotFoundError: No module named 'llmgw.no_such_module'"
    ]


def test_a_missing_file_is_named_with_its_place() -> None:
    problems = file_problems(["agent/launchers/llama_server.py", "agent/nothing.txt"])

    assert problems == [f"{packaged('agent/nothing.txt')} is missing"]
