"""Reads `sasl.jaas.config` as Kafka's Java clients do: JaasConfig.java, over Java's StreamTokenizer."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final, NamedTuple

_TOKEN: Final = re.compile(
    r"""
      (?P<space> \s+ | //[^\n]* | /\*.*?\*/ )
    | (?P<quoted> "(?:[^"\\\n] | \\.)*" | '(?:[^'\\\n] | \\.)*' )
    | (?P<word> [A-Za-z_$\-.0-9\u00a0-\U0010ffff]+ )
    | (?P<mark> . )
    """,
    re.VERBOSE | re.DOTALL,
)
_NAMED: Final = ("username", "password")
"""Options that errors name. Any other word may be a piece of a password that lacks its quotes."""

_FLAGS: Final = ("required", "requisite", "sufficient", "optional")
_ESCAPE: Final = re.compile(r"\\([0-3]?[0-7]{1,2}|.)", re.DOTALL)
_LETTERS: Final = {"a": "\a", "b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t", "v": "\v"}


class Login(NamedTuple):
    """One login module. `module`: a Java class, such as `org.apache.kafka.common.security.plain.PlainLoginModule`."""

    module: str
    options: dict[str, str]

    def __repr__(self) -> str:
        return f"Login({self.module}, …)"


class _Token(NamedTuple):
    word: str
    is_mark: bool


_END: Final = _Token("", is_mark=True)


def parse(text: str) -> Login:
    """Parses a JAAS config. Raises ValueError with a text that names the mistake and shows no password."""
    tokens = _tokens(text)
    module = next(tokens, _END)
    if module.is_mark:
        raise ValueError("no login module in it")
    if next(tokens, _END).word.lower() not in _FLAGS:
        named = module.word if module.word.endswith("LoginModule") else "the first word"
        raise ValueError(f"no control flag (required) behind {named}")
    options: dict[str, str] = {}
    for name in tokens:
        if name == _Token(";", is_mark=True):
            if next(tokens, None) is not None:
                raise ValueError("more than one login module")
            return Login(module.word, options)
        is_given = not name.is_mark and next(tokens, _END) == _Token("=", is_mark=True)
        value = next(tokens, _END) if is_given else _END
        if value.is_mark:
            raise ValueError(f"no value for {name.word if name.word in _NAMED else 'an option'}")
        options[name.word] = value.word
    raise ValueError("no semicolon at its end")


def _tokens(text: str) -> Iterator[_Token]:
    """Yields words, quoted texts (without the quotes) and marks."""
    for found in _TOKEN.finditer(text):
        if found["quoted"] is not None:
            yield _Token(_ESCAPE.sub(_unescaped, found["quoted"][1:-1]), is_mark=False)
        elif found["space"] is None:
            yield _Token(found[0], is_mark=found["mark"] is not None)


def _unescaped(escape: re.Match[str]) -> str:
    escaped = escape[1]
    return chr(int(escaped, 8)) if escaped[0] in "01234567" else _LETTERS.get(escaped, escaped)
