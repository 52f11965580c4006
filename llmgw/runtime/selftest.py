"""Whether this build is whole: modules that are only imported by name, files that are only read by path."""

import importlib
import pkgutil
from collections.abc import Iterable

import llmgw
from llmgw.runtime.resources import packaged

DYNAMIC = (
    "aiosqlite",
    "alembic.command",
    "alembic.ddl.sqlite",
    "click.shell_completion",
    "greenlet",
    "httptools",
    "sqlalchemy.dialects.sqlite.aiosqlite",
    "sqlalchemy.ext.asyncio",
    "sqlite3",
    "ssl",
    "uvicorn.lifespan.on",
    "uvicorn.loops.uvloop",
    "uvicorn.protocols.http.httptools_impl",
    "uvicorn.protocols.websockets.auto",
    "uvloop",
    "websockets.asyncio.client",
    "websockets.asyncio.server",
    "yaml",
    "zstandard.backend_c",
)
"""Modules of others that are imported by name at run time, so that no freeze sees them by itself."""

FILES = (
    "store/migrations/env.py",
    "store/migrations/versions/0001_catalog_keys_nodes_settings.py",
    "store/migrations/versions/0002_node_events_intents.py",
    "agent/launchers/llama_server.py",
    "ui/static/mark.svg",
    "ui/static/page.css",
    "ui/static/page.js",
    "ui/templates/layout.html",
    "ui/templates/parts/node_row.html",
)
"""Packaged files that are found by their path, below the package."""

# Alembic and an engine's own Python run these, from their files.
_NOT_IMPORTED = ("llmgw.__main__", "llmgw.store.migrations", "llmgw.agent.launchers")


def own_modules() -> list[str]:
    """List every module of llmgw that is imported, by its full name."""
    found = pkgutil.walk_packages(llmgw.__path__, "llmgw.")
    return [module.name for module in found if not module.name.startswith(_NOT_IMPORTED)]


def module_problems(names: Iterable[str]) -> list[str]:
    """Import each module; say which cannot be, and why."""
    problems = []
    for name in names:
        try:
            importlib.import_module(name)
        except Exception as error:  # noqa: BLE001 - whatever a module raises while it is imported is the finding
            problems.append(f"{name} cannot be imported: {type(error).__name__}: {error}")
    return problems


def file_problems(names: Iterable[str]) -> list[str]:
    """Look for each packaged file; say which is missing, and where it was looked for."""
    return [f"{packaged(name)} is missing" for name in names if not packaged(name).is_file()]
