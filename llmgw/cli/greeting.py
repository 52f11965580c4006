"""What `llmgw up` says when it is up, or that it cannot be: where, which key, a line to try, and what to write."""

from collections.abc import Sequence
from pathlib import Path

from llmgw.core.errors import Conflict, LlmgwError


def greeting(
    client: str,
    key: str | None,
    folder: Path,
    models: Sequence[str],
    problems: Sequence[str] = (),
    *,
    admin: str,
) -> str:
    """Say what a newcomer needs.

    Args:
        client: host:port for clients.
        key: the first API key; None when it is not kept.
        folder: of everything.
        models: names of the models in the catalog.
        problems: why the catalog file in `folder` was not applied, if it was not.
        admin: host:port of the admin pages.
    """
    url = f"http://{client}/v1"
    kept = (
        f"{key}   (kept in {folder / 'api-key'})"
        if key
        else "made earlier and not kept here; llmgw ctl keys create NAME makes another"
    )
    lines = ["llmgw is up; Ctrl-C stops it", f"  URL   {url}", f"  key   {kept}", f"  pages http://{admin}/"]
    catalog = folder / "catalog.yaml"
    if problems:
        lines.append("  the catalog file was not applied:")
        lines += [f"    {line}" for problem in problems for line in problem.splitlines()]
        lines.append(f"  correct it, then: llmgw ctl apply -f '{catalog}'")
    elif not models:
        lines.append(f"  no models yet: write {catalog} and apply it with llmgw ctl apply -f '{catalog}'")
    return "\n".join([*lines, *(_try(url, key, models[0]) if models else ())])


def _try(url: str, key: str | None, model: str) -> list[str]:
    # A completion reads well from every model; in a chat one without training for it goes on at random.
    body = f'{{"model": "{model}", "prompt": "The capital of France is", "max_tokens": 32}}'
    return [
        "  try",
        f"    curl {url}/completions -H 'Authorization: Bearer {key or 'KEY'}' \\",
        f"      -H 'Content-Type: application/json' -d '{body}'",
        "  /chat/completions works the same way; for sensible answers it takes an instruction-tuned model",
    ]


def refused(error: LlmgwError, folder: Path, listen: dict[str, str]) -> str:
    """Say why nothing was started; for an address that is taken, with the lines that name another.

    Args:
        folder: where server.yaml is read from.
        listen: the addresses that were to be listened on, by their names in server.yaml.
    """
    # Each line of the message about taken addresses begins with the key of one.
    keys = [line.partition(":")[0].removeprefix("listen.") for line in str(error).splitlines()]
    if not isinstance(error, Conflict) or not all(key in listen for key in keys):
        return str(error)
    others = "".join(f"\n    {key}: {_other(listen[key])}" for key in keys)
    return f"{error}. Here that file is {folder / 'server.yaml'}, and these lines in it would do:\n  listen:{others}"


def _other(address: str) -> str:
    host, _, port = address.rpartition(":")
    return f"{host}:{int(port) + 10000 if int(port) < 50000 else 0}"
