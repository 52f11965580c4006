"""Values into HTML: the templates, what they may call, and ages that are filled in last.

A fragment says since when something is so, and not how long ago that was: otherwise every row of every page would
change every second. `<time data-s="1893456000"></time>` is filled with the age when a page is sent; after that the
script counts on.
"""

import re
from datetime import UTC, datetime
from functools import lru_cache
from pathlib import Path
from typing import Any
from urllib.parse import quote

from jinja2 import Environment, FileSystemLoader, StrictUndefined, Template
from markupsafe import Markup

from llmgw import __version__
from llmgw.core.units import show_seconds
from llmgw.ui import marks
from llmgw.ui.statics import Statics

_AGE = re.compile(r'(<time [^>]*data-s="(\d+)"[^>]*>)</time>')


class Rendering:
    """The templates as one listener shows them.

    Attributes:
        prefix: what the paths of its pages begin with: "" on the admin listener, "/admin" on the client port.
    """

    def __init__(self, folder: Path, statics: Statics, *, prefix: str) -> None:
        self.prefix = prefix
        self._environment = Environment(
            loader=FileSystemLoader(folder),
            autoescape=True,
            undefined=StrictUndefined,
            trim_blocks=True,
            lstrip_blocks=True,
            auto_reload=False,
        )
        self._environment.globals.update(
            prefix=prefix,
            url=self.url,
            static=lambda name: f"{prefix}/static/{statics.named(name)}",
            build=statics.build,
            version=__version__,
            bar=marks.bar,
            strip=marks.strip,
            state=marks.state,
            free=marks.free,
            tags=marks.tags,
        )
        self._environment.filters.update(since=since)
        self._templates: dict[str, Template] = {}

    def url(self, *steps: str) -> str:
        """Give the path of a page by its steps, e.g. ("nodes", "gpu-07", "logs"); slashes in a name stay slashes."""
        return _path(self.prefix, steps)

    def render(self, template: str, **values: Any) -> str:
        """Render a template; everything that is put into it is escaped."""
        found = self._templates.get(template)
        if found is None:
            # The environment would look for changes, under a lock, at each of the hundreds of rows of a page.
            found = self._templates[template] = self._environment.get_template(template)
        return found.render(values)


def since(moment: datetime | None) -> Markup:
    """Make the element that shows how long ago something was; a dash for unknown."""
    if moment is None:
        return Markup('<span class="unknown">-</span>')
    return _since(int(moment.timestamp()))


@lru_cache(16384)
def _path(prefix: str, steps: tuple[str, ...]) -> Markup:
    # What is quoted has no character that HTML would mind.
    return Markup("/".join([prefix, *(quote(step, safe="/") for step in steps)]))


@lru_cache(4096)
def _since(at_s: int) -> Markup:
    moment = datetime.fromtimestamp(at_s, UTC)
    return Markup(
        f'<time datetime="{moment:%Y-%m-%dT%H:%M:%SZ}" title="{moment:%Y-%m-%d %H:%M:%S} UTC" data-s="{at_s}"></time>'
    )


def with_ages(html: str, at: datetime) -> str:
    """Fill in how long ago each moment was when it is `at`."""
    now = at.timestamp()
    return _AGE.sub(lambda found: f"{found[1]}{show_seconds(now - int(found[2]))}</time>", html)
