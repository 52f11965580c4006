#!/usr/bin/env python3
"""Any program that speaks OpenAI's words as an engine of llmgw: llama-server's command line in front of its own.

Usage: wrapped_engine.py PROGRAM [FLAGS OF llama-server]

The program is told, in flags of its own, what it needs to know: `--port`, `--model` (the alias), and the three by which
the benches shape answers: `--chunks N`, `--interval-ms MS`, `--delay-ms MS`. Behind `--` follow all the flags that were
given, which it need not read; whoever lists processes still sees an engine by them. It becomes the program, so pid and
signals are the program's. `--version` is answered here. Standard library only.
"""

import argparse
import os
import sys

OWN_NAMES = {
    "--port": "--port",
    "--alias": "--model",
    "--chunks": "--chunks",
    "--interval": "--interval-ms",
    "--delay": "--delay-ms",
}
"""What each flag that matters is called by the program."""


def command(program, given):
    """Make the program's command line from llama-server's flags."""
    parser = argparse.ArgumentParser(allow_abbrev=False)
    for flag in OWN_NAMES:
        parser.add_argument(flag)
    known, _ = parser.parse_known_args(given)
    argv = [program]
    for flag, name in OWN_NAMES.items():
        value = getattr(known, flag.removeprefix("--"))
        if value is not None:
            argv += [name, value]
    return [*argv, "--", *given]


def main(arguments):
    """Be llama-server, by becoming the program."""
    program, *given = arguments
    if "--version" in given:
        print("version: 0.6.0-dev (build 11434, commit 0000000)", file=sys.stderr)
        return 0
    argv = command(program, given)
    os.execv(program, argv)


if __name__ == "__main__":
    if len(sys.argv) < 2:
        sys.exit(__doc__)
    sys.exit(main(sys.argv[1:]))
