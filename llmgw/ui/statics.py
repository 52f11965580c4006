"""The stylesheet, the script and the icon, each under a name that changes with its content and may be kept for ever."""

import hashlib
from pathlib import Path

import msgspec

_TYPES = {".css": "text/css", ".js": "text/javascript", ".svg": "image/svg+xml"}


class StaticFile(msgspec.Struct, frozen=True):
    """One file as it is sent."""

    content: bytes
    media_type: str


class Statics:
    """Every static file, read once.

    Attributes:
        build: changes with any of them; a page of another build loads itself anew.
    """

    def __init__(self, folder: Path) -> None:
        self._files: dict[str, StaticFile] = {}
        self._named: dict[str, str] = {}
        for path in sorted(folder.iterdir()):
            if path.suffix in _TYPES:
                self._add(path)
        self.build = hashlib.sha256("".join(self._files).encode()).hexdigest()[:10]

    def named(self, name: str) -> str:
        """Give the name under which a file is served, e.g. "page.1f2e3d4c5b.css" for "page.css".

        Raises:
            KeyError: there is none of this name.
        """
        return self._named[name]

    def find(self, served: str) -> StaticFile | None:
        """Find a file by the name under which it is served; None for that of another build."""
        return self._files.get(served)

    def _add(self, path: Path) -> None:
        content = path.read_bytes()
        served = f"{path.stem}.{hashlib.sha256(content).hexdigest()[:10]}{path.suffix}"
        self._named[path.name] = served
        self._files[served] = StaticFile(content, _TYPES[path.suffix])
