"""A noun that lists what there is, and has verbs: `nodes` alone lists, `nodes drain NODE` acts.

Where `list` takes an argument, what stands behind the noun and is no verb goes there, so that `replicas gemma` lists
those of one model; one that is called like a verb is listed with `replicas list NAME`.
"""

from typing import Any

import click


class Listing(click.Group):
    """A group whose verb is `list` when none is named; its callback calls `list_unless_told`."""

    def __init__(self, *args: Any, **given: Any) -> None:
        super().__init__(*args, **given | {"invoke_without_command": True, "no_args_is_help": False})

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Find the verb; anything else is for `list` where that takes an argument."""
        takes_name = any(isinstance(param, click.Argument) for param in self.commands["list"].params)
        if takes_name and args and args[0] not in self.commands:
            args = ["list", *args]
        return super().resolve_command(ctx, args)


def list_unless_told(context: click.Context) -> None:
    """Run `list` when no verb was named."""
    group = context.command
    assert isinstance(group, Listing)
    if context.invoked_subcommand is None:
        context.invoke(group.commands["list"])
