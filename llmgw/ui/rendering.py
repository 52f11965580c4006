"""Values into HTML: the templates, what they may call, and ages that are filled in last.

A fragment says since when something is so, and not how long ago that was: otherwise every row of every page would
change every second. `<time data-s="1893456000"></time>` is filled with the age when a page is sent; after that the
script counts on.
"""

import re
from datetime import datetime
from pathlib import Path
from typing import Any
from urllib.parse import quote

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup

from llmgw import __version__
from llmgw.core.units import show_bytes, show_seconds
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
        )
        self._environment.filters.update(bytes=show_bytes, span=show_seconds, since=since, moment=_moment)

    def url(self, *steps: str) -> str:
        """Give the path of a page by its steps, e.g. ("nodes", "gpu-07", "logs"); slashes in a name stay slashes."""
        return "/".join([self.prefix, *(quote(step, safe="/") for step in steps)])

    def render(self, template: str, **values: Any) -> str:
        """Render a template; everything that is put into it is escaped."""
        return self._environment.get_template(template).render(**values)


def since(moment: datetime | None) -> Markup:
    """Make the element that shows how long ago something was; a dash for unknown."""
    if moment is None:
        return Markup('<span class="unknown">-</span>')
    return Markup('<time datetime="{}" title="{}" data-s="{}"></time>').format(
        moment.strftime("%Y-%m-%dT%H:%M:%SZ"), _moment(moment), int(moment.timestamp())
    )


def with_ages(html: str, at: datetime) -> str:
    """Fill in how long ago each moment was when it is `at`."""
    now = at.timestamp()
    return _AGE.sub(lambda found: f"{found[1]}{show_seconds(now - int(found[2]))}</time>", html)


def _moment(moment: datetime) -> str:
    return f"{moment:%Y-%m-%d %H:%M:%S} UTC"
