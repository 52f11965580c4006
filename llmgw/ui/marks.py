"""Small drawings and marks that rows are full of; each is made once for all rows that show the same.

They stand here and not in a template because a page of a large fleet has thousands of them.
"""

from functools import lru_cache

from markupsafe import Markup

from llmgw.ui.present.amounts import Amount
from llmgw.ui.present.gpus import GpuCell
from llmgw.ui.present.node_rows import Tag

_MOST = 4096
_BAR = Markup(
    '<svg class="bar {}" viewBox="0 0 100 4" preserveAspectRatio="none" aria-hidden="true">'
    '<rect class="track" width="100" height="4"/><rect class="fill" width="{}" height="4"/></svg>'
)
_STRIP = Markup(
    '<svg class="strip" width="{0}" height="16" viewBox="0 0 {0} 16" aria-hidden="true">{1}</svg>'
)
_CELL = Markup('<rect class="{} g-{}" x="{}" y="{}" width="6" height="{}" rx="1"/>')
_STATE = Markup('<span class="state s-{0}">{0}</span>')
_DASH = Markup('<span class="unknown">-</span>')
_NONE = Markup('<span class="unknown none">none</span>')
_FREE = Markup('<span class="num">{}</span><span class="of"> of {}</span>')
_TAGS = Markup('<span class="tags">{}</span>')
_TAG = Markup('<span class="tag">{}</span>')
_BAD_TAG = Markup('<span class="tag bad" title="{}">{}<span class="sr"> (not usable)</span></span>')
_FULL_PERCENT = 90


@lru_cache(_MOST)
def bar(percent: int | None, kind: str = "") -> Markup:
    """Draw how much of a whole is taken; nothing when that is unknown."""
    if percent is None:
        return Markup()
    return _BAR.format(f"{kind} full" if percent >= _FULL_PERCENT else kind, percent)


@lru_cache(_MOST)
def strip(cells: tuple[GpuCell, ...]) -> Markup:
    """Draw the GPUs of a node side by side, each filled as far as its memory is."""
    drawn = Markup().join(_cell(number, cell) for number, cell in enumerate(cells))
    return _STRIP.format(len(cells) * 9 - 2, drawn)


@lru_cache(_MOST)
def state(word: str) -> Markup:
    """Mark a state; the sheet gives each word a colour and a shape."""
    return _STATE.format(word)


@lru_cache(_MOST)
def free(amount: Amount) -> Markup:
    """Say how much is free of a whole, with a bar; a dash where nobody said anything."""
    if amount.free == "-" and amount.total == "-":
        return _DASH
    return _FREE.format(amount.free, amount.total) + bar(amount.used_percent)


@lru_cache(_MOST)
def tags(found: tuple[Tag, ...] | None) -> Markup:
    """Name some things, those that cannot be used marked as such; a dash where nobody said anything."""
    if found is None:
        return _DASH
    if not found:
        return _NONE
    return _TAGS.format(Markup().join(_tag(tag) for tag in found))


def _tag(tag: Tag) -> Markup:
    return _TAG.format(tag.text) if tag.problem is None else _BAD_TAG.format(tag.problem, tag.text)


def _cell(number: int, cell: GpuCell) -> Markup:
    left, height = number * 9 + 0.5, (cell.used_percent or 0) * 15 // 100
    frame = _CELL.format("cell", cell.state, left, 0.5, 15)
    return frame + _CELL.format("level", cell.state, left, 15.5 - height, height) if height else frame
