"""Facts as an agent that means harm would tell them: every text in them tries to be more than text."""

from enum import Enum
from typing import Any

import msgspec

HURT = "\"'><script>window.hurt=1</script><img src=x onerror=window.hurt=1>{{ 7*7 }}"


def hostile(value: Any) -> Any:
    """Put HURT in the place of every text of a value, in the keys of mappings and in texts that nobody said, too."""
    if isinstance(value, str) and not isinstance(value, Enum):
        return HURT
    if isinstance(value, tuple):
        return tuple(hostile(one) for one in value)
    if isinstance(value, dict):
        return {hostile(key): hostile(one) for key, one in value.items()}
    if isinstance(value, msgspec.Struct):
        return type(value)(**{field.name: _of(value, field) for field in msgspec.structs.fields(value)})
    return value


def _of(struct: msgspec.Struct, field: msgspec.structs.FieldInfo) -> Any:
    value = getattr(struct, field.name)
    return HURT if value is None and field.type == str | None else hostile(value)
