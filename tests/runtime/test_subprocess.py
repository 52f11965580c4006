from llmgw.runtime.subprocess import clean_environment


def test_outside_a_frozen_program_everything_is_inherited() -> None:
    base = {"PATH": "/bin", "LD_LIBRARY_PATH": "/opt/cuda/lib"}

    assert clean_environment(base) == base


def test_the_library_path_from_before_the_freeze_comes_back() -> None:
    base = {"LD_LIBRARY_PATH": "/usr/lib/llmgw/lib:/opt/cuda/lib", "LD_LIBRARY_PATH_ORIG": "/opt/cuda/lib"}

    assert clean_environment(base) == {"LD_LIBRARY_PATH": "/opt/cuda/lib"}


def test_a_library_path_that_only_the_bootloader_set_is_dropped_with_its_other_variables() -> None:
    base = {
        "PATH": "/bin",
        "LD_LIBRARY_PATH": "/usr/lib/llmgw/lib",
        "_PYI_ARCHIVE_FILE": "/usr/lib/llmgw/llmgw",
        "_PYI_PARENT_PROCESS_LEVEL": "1",
        "_MEIPASS2": "/tmp/x",
        "PYINSTALLER_RESET_ENVIRONMENT": "1",
    }

    assert clean_environment(base) == {"PATH": "/bin"}


def test_cleaning_twice_changes_nothing_more() -> None:
    base = {"LD_LIBRARY_PATH": "/x:/y", "LD_LIBRARY_PATH_ORIG": "/y", "_PYI_ARCHIVE_FILE": "/z"}

    once = clean_environment(base)

    assert clean_environment(once) == once == {"LD_LIBRARY_PATH": "/y"}


def test_scrubbed_names_and_beginnings_are_not_inherited() -> None:
    base = {"AIP_MODE": "x", "AIP_MODEL": "y", "LLAMA_ARG_TOOLS": "all", "LLAMA_ARGUMENT": "z"}

    clean = clean_environment(base, scrub=("AIP_MODE", "LLAMA_ARG_*"))

    assert clean == {"AIP_MODEL": "y", "LLAMA_ARGUMENT": "z"}


def test_what_is_added_wins_over_what_is_inherited_and_scrubbed() -> None:
    base = {"A": "old", "B": "old"}

    clean = clean_environment(base, scrub=("B",), add={"A": "new", "B": "new", "C": "new"})

    assert clean == {"A": "new", "B": "new", "C": "new"}
    assert base == {"A": "old", "B": "old"}
