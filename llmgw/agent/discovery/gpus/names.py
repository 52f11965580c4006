"""Trade names of GPUs, and what catalogs call their kinds."""

import re

_VENDOR = re.compile(r"^(nvidia|amd|advanced micro devices,? inc\.?)\s+", re.IGNORECASE)
_MARKS = re.compile(r"\((r|tm|c)\)|[®™©]", re.IGNORECASE)
_BETWEEN = re.compile(r"[^a-z0-9.]+")
_UNIFIED = re.compile(r"\b(GB10|N1X|Thor|Orin|Xavier)\b", re.IGNORECASE)


def gpu_class(name: str) -> str | None:
    """Make the kind out of a trade name: `NVIDIA H100 80GB HBM3` is `h100-80gb-hbm3`; None when nothing is left."""
    plain = _VENDOR.sub("", _MARKS.sub("", name).strip())
    return _BETWEEN.sub("-", plain.lower()).strip("-.") or None


def shares_main_memory(name: str) -> bool:
    """Tell the parts whose memory is the machine's own, though some drivers give them a (wrong) size."""
    return _UNIFIED.search(name) is not None
