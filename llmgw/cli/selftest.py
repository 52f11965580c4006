"""`llmgw selftest`: whether this build is whole; it ends every freeze."""

import sys

import click

from llmgw.cli import PROGRAMS
from llmgw.runtime.selftest import DYNAMIC, FILES, file_problems, module_problems, own_modules


@click.command("selftest")
def command() -> None:
    """Check that this build is whole: modules imported by name, files read by path."""
    targets = {program.target.partition(":")[0] for program in PROGRAMS.values()}
    modules = sorted({*own_modules(), *targets, *DYNAMIC})
    problems = [*module_problems(modules), *file_problems(FILES)]
    for problem in problems:
        click.echo(f"selftest: {problem}", err=True)
    if problems:
        sys.exit(1)
    click.echo(f"selftest: ok, {len(modules)} modules and {len(FILES)} files")
