from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner, Result
from fakes.http_server import HttpServer
from fakes.operations import FakeOperations
from fakes.sample_fleet import NOW, sample_catalog, sample_fleet

from llmgw.ctl.main import command
from llmgw.ui.app import admin_app

Ctl = Callable[..., Result]


@pytest.fixture(scope="session")
def serving() -> Iterator[tuple[HttpServer, FakeOperations]]:
    operations = FakeOperations()
    server = HttpServer(admin_app(operations))
    yield server, operations
    server.stop()


@pytest.fixture
def operations(serving: tuple[HttpServer, FakeOperations]) -> FakeOperations:
    _, operations = serving
    operations.reset(sample_catalog(), sample_fleet())
    operations.clock.advance(NOW)
    return operations


@pytest.fixture
def ctl(
    serving: tuple[HttpServer, FakeOperations],
    operations: FakeOperations,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> Ctl:
    """Run ctl in an empty folder against the real API over fakes."""
    monkeypatch.chdir(tmp_path)

    def run(*arguments: str, input: str | None = None, server: str | None = serving[0].address) -> Result:
        return CliRunner().invoke(
            command, arguments, input=input, env={"LLMGW_SERVER": server, "LLMGW_API_KEY": None}
        )

    return run
