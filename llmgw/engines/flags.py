"""Reading arguments as Python's argparse reads them, for engines whose command lines it makes.

It takes --max_model_len for --max-model-len where the engine lets it (both of ours do), `--name=value` for
`--name value`, and any beginning of a flag that only one flag has: `--hos` for `--host`.
"""

from collections.abc import Collection, Iterator, Mapping

_LEAST_BEGINNING = 3


def spelled(given: str) -> str:
    """Spell an argument as the engine compares it, without a value that is joined to it."""
    name = given.partition("=")[0]
    return name.replace("_", "-") if name.startswith("--") else name


def has(args: tuple[str, ...], names: Collection[str]) -> bool:
    """Tell whether any of these flags is given."""
    return any(spelled(given) in names for given in args)


def values(args: tuple[str, ...], names: Collection[str]) -> Iterator[str]:
    """Yield the values given to any of these flags, in their order; the last one wins."""
    for place, given in enumerate(args):
        if spelled(given) in names:
            if "=" in given:
                yield given.partition("=")[2]
            elif place + 1 < len(args):
                yield args[place + 1]


def last_number(args: tuple[str, ...], names: Collection[str]) -> int | None:
    """Read the last whole number given to any of these flags; None when there is none."""
    numbers = [int(value) for value in values(args, names) if value.isdecimal()]
    return numbers[-1] if numbers else None


def last_share(args: tuple[str, ...], names: Collection[str]) -> float | None:
    """Read the last share, 0 to 1, given to any of these flags; None when there is none."""
    shares = [share for value in values(args, names) if (share := _share(value)) is not None]
    return shares[-1] if shares else None


def refusal(args: tuple[str, ...], refused: Mapping[str, str], fine: Collection[str] = ()) -> str | None:
    """Say which argument must not be given, and why.

    Args:
        refused: the reason, by flag.
        fine: flags that are beginnings of refused ones and flags of their own.
    """
    for given in args:
        if "\0" in given:
            return f"argument {given!r} holds a NUL byte, which no program can be given; remove it"
        flag = spelled(given)
        if flag in refused:
            return f"argument {given!r} is refused: {refused[flag]}"
        if flag in fine or not flag.startswith("--") or len(flag) < _LEAST_BEGINNING:
            continue
        if (whole := next((name for name in refused if name.startswith(flag)), None)) is not None:
            return f"argument {given!r} may be taken for {whole}, which is refused: {refused[whole]}"
    return None


def _share(text: str) -> float | None:
    try:
        share = float(text)
    except ValueError:
        return None
    return share if 0.0 < share <= 1.0 else None
