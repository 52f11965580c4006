"""One model: what the catalog says of it, how its replicas fare, and what every node answers to it."""

from collections import Counter
from collections.abc import Iterable
from typing import Any

import msgspec
from msgspec.structs import fields

from llmgw.core.fleet.catalog import Model
from llmgw.core.placement.explain import Explanation, NodeAnswer
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


class Verdicts(msgspec.Struct, frozen=True, kw_only=True):
    """All answers in a few words.

    Attributes:
        refusals: how many nodes each rule refused, the most frequent first, for each profile.
    """

    fitting: int
    asked: int
    refusals: tuple[str, ...]


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
    return _plain(model)


def answer_rows(explanation: Explanation) -> tuple[AnswerRow, ...]:
    """Show every node's answer to every profile, those that fit first."""
    rows = [_row(answer) for answer in explanation.nodes]
    return tuple(sorted(rows, key=lambda row: row.rule is not None))


def verdicts(rows: Iterable[AnswerRow]) -> Verdicts:
    """Count the answers."""
    found = list(rows)
    counts = Counter((row.profile, row.rule) for row in found if row.rule is not None)
    return Verdicts(
        fitting=len({row.node for row in found if row.rule is None}),
        asked=len({row.node for row in found}),
        refusals=tuple(f"{count} × {rule} ({profile})" for (profile, rule), count in counts.most_common()),
    )


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
