"""The environment of other programs: what they would have inherited had llmgw not been a frozen program."""

from collections.abc import Mapping

# What PyInstaller's bootloader leaves behind for its own children.
_BOOTLOADER = ("_PYI_", "_MEIPASS", "PYINSTALLER_")
_LIBRARIES = "LD_LIBRARY_PATH"


def clean_environment(
    base: Mapping[str, str], *, scrub: tuple[str, ...] = (), add: Mapping[str, str] | None = None
) -> dict[str, str]:
    """Make the environment for a program that llmgw starts.

    The bootloader of a frozen program points LD_LIBRARY_PATH at the libraries it brings along; another program
    that inherited it would load our libssl, and `ldd` would report on ours. The value from before is kept by the
    bootloader under another name and put back; without any mark of a bootloader the variable is the operator's
    own and stays.

    Args:
        base: the environment to start from; it is not changed.
        scrub: names (or, with a final *, beginnings of names) that must not be inherited.
        add: variables to set in the end; they win, also over `scrub`.
    """
    clean = {name: value for name, value in base.items() if not _matches(name, scrub)}
    before = clean.pop(f"{_LIBRARIES}_ORIG", None)
    frozen = [name for name in clean if name.startswith(_BOOTLOADER)]
    for name in frozen:
        del clean[name]
    if before is not None:
        clean[_LIBRARIES] = before
    elif frozen:
        clean.pop(_LIBRARIES, None)
    return clean | dict(add or {})


def _matches(name: str, rules: tuple[str, ...]) -> bool:
    return any(name.startswith(rule[:-1]) if rule.endswith("*") else name == rule for rule in rules)
