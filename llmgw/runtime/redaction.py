"""Cut whatever looks like a credential out of a text before it is written or shown anywhere (LOG-9).

What names a credential stays, so that a reader sees that there was one. Rather a word too many is cut than a key too
few; counts of tokens and other plain words that an engine prints all day are left alone.
"""

import re
from collections.abc import Sequence
from typing import NamedTuple

_CUT = "[redacted]"
_NAMES = r"""(?:\b|_|-)(?:
    x-api-key | api[_-]?key | access[_-]?key(?:[_-]?id)? | secret[_-]?access[_-]?key | secret[_-]?key | private[_-]?key
  | client[_-]?secret | secret | password | passwd | passphrase | pwd | session[_-]?id
  | (?:auth|access|refresh|api|hf|hub|hugging_?face(?:_?hub)?|session|bearer|join)[_-]?token
)"""
_TOKEN = r"(?:\b|_|-)token"
_IS = r"""["']?\s{0,16}[:=]\s{0,4}"""
_COUNT = r"(?!\d{1,9}(?![\w.~+/=-]))"


class _Rule(NamedTuple):
    """What stays, the credential behind it, and words of which a text with such a credential has one."""

    kept: str
    cut: str
    words: tuple[str, ...]


_NAMED = ("key", "token", "secret", "pass", "pwd", "session")
_RULES = (
    # Authorization: Bearer ..., as a header, in JSON, in a dictionary.
    _Rule(
        rf"\b(?:proxy-)?authorization{_IS}[\"']?(?:(?:bearer|basic|token|digest)\s+)?",
        r"[^\s\"']{3,}",
        ("authorization",),
    ),
    _Rule(rf"\b(?:set-)?cookie{_IS}[\"']?", r"[^\r\n\"']{4,}", ("cookie",)),
    _Rule(r"\bbearer\s+(?!tokens?\b|auth|scheme)", r"[\w.~+/=-]{4,}", ("bearer",)),
    # Of what follows `basic`, only what cannot be a word.
    _Rule(r"\bbasic\s+(?=(?-i:\S[a-z+/]*[A-Z0-9=]))", r"[\w+/]{8,}={0,2}(?![\w.])", ("basic",)),
    # NAME=value, "name": "value".
    _Rule(rf"{_NAMES}{_IS}[\"']", r"[^\r\n\"']+", _NAMED),
    _Rule(rf"{_NAMES}{_IS}", r"[^\s\"']{3,}", _NAMED),
    _Rule(rf"{_TOKEN}{_IS}[\"']?{_COUNT}", r"[^\s\"']{4,}", ("token",)),
    # --api-key value, as a command line has it.
    _Rule(
        rf"(?<!\S)--?(?:[a-z]{{1,20}}-){{0,4}}(?:key|token|secret|password)[ ]+(?!-){_COUNT}",
        r"\S{4,}",
        ("key ", "token ", "secret ", "password "),
    ),
    # What signs a URL, and who calls: https://user:password@host.
    _Rule(
        r"[?&](?:key|sig|signature|policy|x-amz-(?:signature|credential|security-token))=",
        r"[^\s\"'&]{4,}",
        ("key=", "sig", "policy=", "x-amz-"),
    ),
    _Rule(r"\b[a-z][a-z0-9+.-]{0,20}://[^\s/@:\"']{0,256}:", r"[^\s/@\"']{1,512}(?=@)", ("://",)),
    _Rule(r"\b[a-z][a-z0-9+.-]{0,20}://(?=[^\s/@:\"']{16,512}@)", r"[^\s/@:\"']+(?=@)", ("://",)),
    # Keys that are known by how they begin.
    _Rule(
        r"""(?<![\w-])(?:
            sk-(?:llmgw-)? | hf_(?=\w{8}) | gh[pousr]_(?=\w{16}) | github_pat_ | glpat- | nvapi- | xox[abprs]-
          | akia(?=\w{16}) | eyj(?=[\w-]{8,}\.[\w-]{8,}\.)
        )""",
        r"[\w.~+/=-]{4,}",
        (
            "sk-",
            "hf_",
            "ghp_",
            "gho_",
            "ghu_",
            "ghs_",
            "ghr_",
            "github_pat_",
            "glpat-",
            "nvapi-",
            "xox",
            "akia",
            "eyj",
        ),
    ),
)
# What stays is matched at once or not at all, so that a text that was cut before is left as it is.
_Hinted = tuple[re.Pattern[str], tuple[str, ...]]
_KEEP = rf"\g<kept>{_CUT}"
_COMPILED: tuple[_Hinted, ...] = tuple(
    (re.compile(rf"(?ix)(?P<kept>(?>{rule.kept}))(?!{re.escape(_CUT)}){rule.cut}"), rule.words)
    for rule in _RULES
)

_WORDS = frozenset(word for rule in _RULES for word in rule.words)


def redact(text: str) -> str:
    """Replace whatever looks like a credential in `text` by `[redacted]`, keeping what names it."""
    return _redacted(text, _hinted(text))


def redact_all(texts: Sequence[str]) -> list[str]:
    """Do as `redact` does to each of many texts, for a fraction of what that costs one by one."""
    hinted = _hinted("\n".join(texts))
    return [_redacted(text, hinted) for text in texts] if hinted else list(texts)


def _hinted(text: str) -> list[_Hinted]:
    """Find the patterns that may match: most texts have none of their words, and looking costs next to nothing."""
    lowered = text.lower()
    present = {word for word in _WORDS if word in lowered}
    return [
        (pattern, found)
        for pattern, words in _COMPILED
        if (found := tuple(word for word in words if word in present))
    ]


def _redacted(text: str, hinted: list[_Hinted]) -> str:
    lowered = text.lower()
    for pattern, words in hinted:
        for word in words:
            if word in lowered:
                text = pattern.sub(_KEEP, text)
                break
    return text
