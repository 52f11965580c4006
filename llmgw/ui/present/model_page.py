"""One model: what the catalog says of it, how its replicas fare, and what every node answers to it."""

from collections import Counter
from collections.abc import Iterable
from typing import Any

import msgspec
from msgspec.structs import fields

from llmgw.core.fleet.catalog import Model
from llmgw.core.placement.answers import NodeAnswer, ProfileNeeds
from llmgw.core.placement.explain import Explanation
from llmgw.core.placement.measured import UNKNOWN_MEMORY, learned_words
from llmgw.core.units import show_bytes
from llmgw.ui.present.model_rows import ModelRow


class AnswerRow(msgspec.Struct, frozen=True, kw_only=True):
    """What one node answers to one profile.

    Attributes:
        rule: which rule said no; None when it fits.
    """

    key: str
    node: str
    profile: str
    rule: str | None
    needed: str
    had: str
    would_fit_if: str


class NeedRow(msgspec.Struct, frozen=True, kw_only=True):
    """What one profile asks of a node.

    Attributes:
        asks: one thing each, e.g. "1 GPU of class h100 with 38.0 GiB".
        learned: where the need of memory was learned, when not in the catalog; None otherwise.
    """

    profile: str
    asks: tuple[str, ...]
    learned: str | None


class Verdicts(msgspec.Struct, frozen=True, kw_only=True):
    """All answers in a few words.

    Attributes:
        refusals: how many nodes each rule refused, the most frequent first, for each profile.
        next: where one more replica would go, and why there; None when it fits nowhere.
    """

    fitting: int
    asked: int
    refusals: tuple[str, ...]
    next: str | None


class ModelHead(msgspec.Struct, frozen=True, kw_only=True):
    """How a model fares, and what can be done about it.

    Attributes:
        stale: how many replicas run what the catalog says no more.
        rolling: a roll is under way.
    """

    row: ModelRow
    stale: int
    rolling: bool


def catalog_entry(model: Model) -> dict[str, Any]:
    """Give a model as catalog.yaml has it: what has its default is left out."""
    entry: dict[str, Any] = _plain(model)
    return entry


def answer_rows(explanation: Explanation) -> tuple[AnswerRow, ...]:
    """Show every node's answer to every profile, those that fit first."""
    rows = [_row(answer) for answer in explanation.nodes]
    return tuple(sorted(rows, key=lambda row: row.rule is not None))


def need_rows(explanation: Explanation) -> tuple[NeedRow, ...]:
    """Show what each profile asks of a node."""
    return tuple(
        NeedRow(profile=needs.profile, asks=_asks(needs) or ("nothing",), learned=_learned(needs))
        for needs in explanation.needs
    )


def verdicts(explanation: Explanation, rows: Iterable[AnswerRow]) -> Verdicts:
    """Count the answers."""
    found, following = list(rows), explanation.next
    counts = Counter((row.profile, row.rule) for row in found if row.rule is not None)
    return Verdicts(
        fitting=len({row.node for row in found if row.rule is None}),
        asked=len({row.node for row in found}),
        refusals=tuple(f"{count} × {rule} ({profile})" for (profile, rule), count in counts.most_common()),
        next=None if following is None else f"{', '.join(following.nodes)}: {following.because}",
    )


def _asks(needs: ProfileNeeds) -> tuple[str, ...]:
    asks = []
    if needs.gpus:
        gpus = f"{needs.gpus} GPU{'s' if needs.gpus > 1 else ''}"
        gpus += f" of class {needs.gpu_class}" if needs.gpu_class else ""
        if needs.gpu_bytes is not None:
            gpus += f" with {show_bytes(needs.gpu_bytes)}{' each' if needs.gpus > 1 else ''}"
        elif needs.gpu_share is not None:
            gpus += f" with {needs.gpu_share:.0%} of the memory free"
        asks.append(gpus)
    if needs.memory_bytes is not None:
        asks.append(f"{show_bytes(needs.memory_bytes)} of main memory")
    if needs.disk_bytes is not None:
        asks.append(f"{show_bytes(needs.disk_bytes)} of disk where the weights are still to be fetched")
    if needs.nodes > 1:
        asks.append(f"{needs.nodes} nodes{f' on fabric {needs.fabric}' if needs.fabric else ''}")
    elif needs.fabric:
        asks.append(f"fabric {needs.fabric}")
    return tuple(asks)


def _learned(needs: ProfileNeeds) -> str | None:
    if needs.memory_bytes is None:
        return UNKNOWN_MEMORY
    if needs.estimated_bytes is None and needs.measured_bytes is None:
        return None
    words = learned_words(
        needs.memory_said or "",
        estimated_bytes=needs.estimated_bytes,
        measured_bytes=needs.measured_bytes,
        spare_bytes=needs.spare_bytes,
    )
    return f"main memory: {words}"


def _row(answer: NodeAnswer) -> AnswerRow:
    verdict = answer.verdict
    return AnswerRow(
        key=f"{answer.profile}@{answer.node}",
        node=answer.node,
        profile=answer.profile,
        rule=None if verdict is None else verdict.rule,
        needed="" if verdict is None else verdict.needed,
        had="" if verdict is None else verdict.had,
        would_fit_if="" if verdict is None else verdict.would_fit_if,
    )


def _plain(value: Any) -> Any:
    if isinstance(value, msgspec.Struct):
        return {
            field.encode_name: _plain(getattr(value, field.name))
            for field in fields(value)
            if field.required or getattr(value, field.name) != _default(field)
        }
    if isinstance(value, tuple | list):
        return [_plain(item) for item in value]
    return value


def _default(field: msgspec.structs.FieldInfo) -> Any:
    if field.default_factory is not msgspec.NODEFAULT:
        return field.default_factory()
    return field.default
