"""Requests to where weights are: redirects, the hub's token, and what an answer that brings no file means.

1. The token goes to the hub alone, and to nobody it redirects to.
2. A redirect may not lead away from https, nor from elsewhere to this machine.
3. A refusal is said in words that name what to set; nothing of a URL's query is ever shown.
"""

import logging
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager

import httpx

from llmgw.agent.fetcher.faults import Broken, CannotFetch

log = logging.getLogger("llmgw.agent.fetcher")

DEFAULT_HUB = "https://huggingface.co"
MOST_REDIRECTS = 10
_LOOPBACK = ("127.0.0.1", "localhost", "::1")
_CONNECT_S = 30.0
_PASSES = frozenset({408, 425, 429, 500, 502, 503, 504})
"""Statuses that another try may well not meet."""
_GATED = "if the repository is gated, ask for access on its page of the hub"


class Web:
    """One client for all downloads of an agent."""

    def __init__(self, *, hub: str, token: Callable[[], str | None], silent_s: float) -> None:
        """Take where the hub is.

        Args:
            token: gives what opens repositories of the hub; None when there is none. It may raise CannotFetch.
            silent_s: an answer that brings nothing for so long is given up.
        """
        self.hub = hub.rstrip("/")
        self._token = token
        self._timeout = httpx.Timeout(silent_s, connect=min(_CONNECT_S, silent_s), pool=None)
        self._client: httpx.AsyncClient | None = None

    async def close(self) -> None:
        """End all connections."""
        if self._client is not None:
            await self._client.aclose()

    @asynccontextmanager
    async def asked(
        self, method: str, url: str, headers: Mapping[str, str] | None = None, *, leaves_host: bool = True
    ) -> AsyncIterator[httpx.Response]:
        """Ask and follow redirects; gives the answer, whatever its status, with its body still to be read.

        Args:
            leaves_host: follow to other hosts too; otherwise the redirect that leads there is the answer.

        Raises:
            Broken: the connection could not be made, broke off or fell silent, here or while the body is read.
            CannotFetch: the redirects lead where none may, or nowhere.
        """
        at = httpx.URL(url)
        for _ in range(MOST_REDIRECTS + 1):
            client = self._opened()
            request = client.build_request(method, at, headers=self._headers(at, headers or {}))
            with _named(at):
                answer = await client.send(request, stream=True)
            try:
                target = _target(at, answer)
                if target is None or (not leaves_host and _origin(target) != _origin(at)):
                    with _named(at):
                        yield answer
                    return
            finally:
                await answer.aclose()
            if _origin(target) != _origin(at):
                log.info("%s sends on to %s", _host(at), _host(target))
            at = target
        raise CannotFetch(f"{place(url)} redirects more than {MOST_REDIRECTS} times")

    def _opened(self) -> httpx.AsyncClient:
        """Make the client when it is first needed: it reads all certificates, and most agents never fetch."""
        if self._client is None:
            # A proxy of the surroundings is the way to the internet, and never to this machine itself.
            direct = {f"all://{f'[{host}]' if ':' in host else host}": None for host in _LOOPBACK}
            self._client = httpx.AsyncClient(timeout=self._timeout, mounts=direct)
        return self._client

    def refused(self, answer: httpx.Response, url: str, what: str) -> Exception:
        """Say what an answer that brings no file means, as what is to be raised.

        Args:
            url: that was asked for; the answer may be of another host that it redirected to.
            what: was asked for, for people.
        """
        status, where = answer.status_code, place(answer.url)
        moved = _origin(answer.url) != _origin(httpx.URL(url))
        if status in _PASSES or (moved and status == 403):
            # The signature of a URL that somebody redirects to grows old; the next try gets a new one.
            return Broken(f"{where} answers {status}")
        if not moved and self._is_hub(answer.url):
            return CannotFetch(f"{what}: {self._hubs_words(status, answer.headers.get('x-error-code', ''))}")
        if status in (401, 403):
            return CannotFetch(f"{what}: {where} answers {status}: it wants a key that llmgw does not have")
        if status in (404, 410):
            return CannotFetch(f"{what}: {where} has no such file (it answers {status})")
        return CannotFetch(f"{what}: {where} answers {status}, wanted 200")

    def _hubs_words(self, status: int, code: str) -> str:
        if code == "EntryNotFound":
            return "the repository has no such file; correct its name in the catalog"
        if code == "RevisionNotFound":
            return "the repository has no such revision; correct what stands behind the @"
        if status in (401, 403) and self._token() is None:
            return (
                f"the hub answers {status}: there is no such repository, or it takes a token; set HF_TOKEN for the "
                f"agent, or weights.token_file in its agent.yaml; {_GATED}"
            )
        if status in (401, 403):
            token = "the agent's token (HF_TOKEN or weights.token_file)"
            return f"the hub answers {status}: {token} does not open it; {_GATED}"
        if status == 404:
            return "the hub knows no such repository or file, or hides it from who has no token; correct its name"
        return f"the hub answers {status}, wanted 200"

    def _headers(self, at: httpx.URL, given: Mapping[str, str]) -> dict[str, str]:
        headers = {"accept-encoding": "identity", "user-agent": "llmgw"} | dict(given)
        token = self._token() if self._is_hub(at) else None
        return headers | ({"authorization": f"Bearer {token}"} if token else {})

    def _is_hub(self, url: httpx.URL) -> bool:
        return _origin(url) == _origin(httpx.URL(self.hub))


def place(url: httpx.URL | str) -> str:
    """Show a URL without what may be a secret."""
    return str(httpx.URL(url).copy_with(query=None, fragment=None, userinfo=b""))


def _target(at: httpx.URL, answer: httpx.Response) -> httpx.URL | None:
    """Find where an answer redirects to; None when it does not.

    Raises:
        CannotFetch: it may not lead there.
    """
    if answer.status_code not in (301, 302, 303, 307, 308) or "location" not in answer.headers:
        return None
    try:
        target = at.join(answer.headers["location"])
    except httpx.InvalidURL as error:
        raise CannotFetch(f"{place(at)} redirects to what is no address") from error
    here, there = at.host in _LOOPBACK, target.host in _LOOPBACK
    if target.scheme == "https" and (here or not there):
        return target
    if target.scheme == "http" and here and there:
        return target
    raise CannotFetch(f"{place(at)} redirects to {place(target)}, where no redirect of it may lead")


def _origin(url: httpx.URL) -> tuple[str, str, int | None]:
    return url.scheme, url.host, url.port


def _host(url: httpx.URL) -> str:
    return url.netloc.decode("ascii", "replace")


@contextmanager
def _named(url: httpx.URL) -> Iterator[None]:
    """Tell what the connection to a host suffers as Broken, with the host's name."""
    where = _host(url)
    try:
        yield
    except httpx.TimeoutException as error:
        raise Broken(f"{where} fell silent ({type(error).__name__})") from error
    except httpx.TransportError as error:
        raise Broken(f"{where}: {error or type(error).__name__}") from error
    except httpx.InvalidURL as error:
        raise CannotFetch(f"{where}: {error}") from error
