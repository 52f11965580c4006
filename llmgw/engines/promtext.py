"""Reading what engines say at GET /metrics: Prometheus's text format, as far as counters and gauges go."""

import re
from collections.abc import Iterator

import msgspec

_SAMPLE = re.compile(r"([A-Za-z_:][\w:]*)(?:\{(.*)\})?\s+(\S+)(?:\s+-?\d+)?\Z")
_LABEL = re.compile(r'([A-Za-z_]\w*)="((?:[^"\\]|\\.)*)"')
_ESCAPED = {r"\n": "\n", r"\\": "\\", r"\"": '"'}


class Sample(msgspec.Struct, frozen=True):
    """One number, its name and its labels."""

    name: str
    labels: dict[str, str]
    value: float


def samples(text: str) -> Iterator[Sample]:
    """Yield every sample; lines that are none are passed over."""
    for line in text.splitlines():
        found = _SAMPLE.match(line.strip())
        if found is not None and (value := _number(found[3])) is not None:
            yield Sample(found[1], _labels(found[2] or ""), value)


def total(text: str, name: str) -> float | None:
    """Add up one metric over all its labels (an engine may be several); None when there is none of that name."""
    values = [sample.value for sample in samples(text) if sample.name == name]
    return sum(values) if values else None


def _labels(text: str) -> dict[str, str]:
    return {
        name: re.sub(r"\\.", lambda escape: _ESCAPED.get(escape[0], escape[0]), value)
        for name, value in _LABEL.findall(text)
    }


def _number(text: str) -> float | None:
    try:
        return float(text)
    except ValueError:
        return None
