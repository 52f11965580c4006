"""The program's first lines; they import as little as they can, for they run at every start."""

import sys


def main() -> None:
    """Run the command line."""
    if getattr(sys, "frozen", False):
        _clean_own_environment()
    if sys.argv[1:] == ["--version"]:
        from llmgw import __version__

        print(f"llmgw, version {__version__}")
        return
    # A frozen child that multiprocessing starts comes in here as well, and must not reach the command line.
    if any("multiprocessing" in given for given in sys.argv[1:]):
        from multiprocessing import freeze_support

        freeze_support()
    from llmgw.cli import cli

    cli(prog_name="llmgw")


def _clean_own_environment() -> None:
    """Take the bootloader's variables out of our own environment, once, for every later child.

    Our libraries are found all the same: the C library read LD_LIBRARY_PATH when this process started.
    """
    import os

    from llmgw.runtime.subprocess import clean_environment

    clean = clean_environment(os.environ)
    for name in set(os.environ) - set(clean):
        del os.environ[name]
    os.environ.update(clean)


if __name__ == "__main__":
    main()
