"""Translates the login of client.properties to arguments of kafka-python: mechanism, Kerberos service, name and
password, or a source of tokens."""

from __future__ import annotations

import importlib.util
import re
from collections.abc import Iterator, Mapping
from typing import Any, Final, NamedTuple

from service.kafka import oauth
from service.kafka.client_properties.keys import (
    GSSAPI,
    JAAS,
    KERBEROS_SERVICE,
    LOGIN_HANDLER,
    MECHANISM,
    OAUTHBEARER,
    PASSWORDS,
    PROTOCOL,
)

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
"""Options that error messages may name. Any other word may be part of a password without quotes."""

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
        raise ValueError("no login module")
    if next(tokens, _END).word.lower() not in _FLAGS:
        named = module.word if module.word.endswith("LoginModule") else "the first word"
        raise ValueError(f"no control flag, such as `required`, after {named}")
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
    """Yields words, quoted texts (without the quotes), and marks (all other characters, one by one)."""
    for found in _TOKEN.finditer(text):
        if found["quoted"] is not None:
            yield _Token(_ESCAPE.sub(_unescaped, found["quoted"][1:-1]), is_mark=False)
        elif found["space"] is None:
            yield _Token(found[0], is_mark=found["mark"] is not None)


def _unescaped(escape: re.Match[str]) -> str:
    escaped = escape[1]
    return chr(int(escaped, 8)) if escaped[0] in "01234567" else _LETTERS.get(escaped, escaped)


_MODULES: Final = {
    "org.apache.kafka.common.security.plain.PlainLoginModule": PASSWORDS,
    "org.apache.kafka.common.security.scram.ScramLoginModule": PASSWORDS,
    "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule": (OAUTHBEARER,),
    "security.auth.module.Krb5LoginModule": (GSSAPI,),
}
"""Maps a JAAS login module to the mechanisms that it serves. The first three may have a package in front, as in shaded
jars; the last one has com.sun or com.ibm in front. Any other module is refused, because the meaning of its options is
unknown."""

_DEFAULT_HANDLER: Final = "org.apache.kafka.common.security.authenticator.AbstractLogin$DefaultLoginCallbackHandler"


def arguments(properties: Mapping[str, str]) -> dict[str, Any]:
    """Returns kafka-python's arguments that begin with `sasl_`. `properties`: the result of `reading.resolve`, in which
    `keys.mistakes` finds no mistake. Raises ValueError with a text that names the key and contains no secret."""
    logs_in = properties.get(PROTOCOL, "").upper().startswith("SASL_")
    mechanism = properties.get(MECHANISM, GSSAPI if logs_in else "").upper()
    shown = f"{MECHANISM}={mechanism}" + ("" if MECHANISM in properties else " (the default)")
    options = _options(properties[JAAS], mechanism, shown) if JAAS in properties else {}
    if logs_in and mechanism in PASSWORDS and JAAS not in properties:
        raise ValueError(f"{shown} needs {JAAS}")
    _check_handler(mechanism, properties)
    out: dict[str, Any] = {"sasl_mechanism": mechanism} if mechanism else {}
    if mechanism == OAUTHBEARER:
        source = oauth.source_of(properties, options)
        out["sasl_oauth_token_provider"] = oauth.provider(source, oauth.extensions_of(options))
    elif "password" in options:
        out |= {"sasl_plain_username": options["username"], "sasl_plain_password": options["password"]}
    service = properties.get(KERBEROS_SERVICE) or options.get("serviceName")
    if service:
        out["sasl_kerberos_service_name"] = service
    if logs_in and mechanism == GSSAPI:
        if not service:
            raise ValueError(f"{shown} needs {KERBEROS_SERVICE}")
        if importlib.util.find_spec("gssapi") is None:
            raise ValueError(f"{shown} needs the Python package gssapi, which is not installed")
    return out


def _options(text: str, mechanism: str, shown: str) -> dict[str, str]:
    """Returns the options of the login module. They include `username` and `password` for a module that logs in with a
    password, and no `password` for any other module. Raises ValueError if the config has a mistake, or does not fit the
    mechanism."""
    try:
        login = parse(text)
    except ValueError as e:
        raise ValueError(f"{JAAS}: {e}") from e
    serves = next((of for name, of in _MODULES.items() if f".{login.module}".endswith(f".{name}")), None)
    if serves is None:
        raise ValueError(f"{JAAS}: the login module {login.module} is not supported")
    if mechanism and mechanism not in serves:
        raise ValueError(f"{JAAS}: {login.module} does not serve {shown}")
    if serves != PASSWORDS:
        return {name: value for name, value in login.options.items() if name != "password"}
    if not login.options.keys() >= {"username", "password"}:
        raise ValueError(f"{JAAS}: username or password is missing")
    if login.options.get("tokenauth", "").lower() == "true":
        raise ValueError(f"{JAAS}: tokenauth is not supported")
    return login.options


def _check_handler(mechanism: str, properties: Mapping[str, str]) -> None:
    """Raises ValueError for a callback handler that is not Kafka's own: in Java such a class would supply the login. If
    the properties have the key `oauth.COMMAND`, any handler is accepted, because the command replaces the handler."""
    handler = properties.get(LOGIN_HANDLER, "")
    if not handler or oauth.COMMAND in properties:
        return
    if mechanism == OAUTHBEARER and handler.rpartition(".")[2] == "OAuthBearerLoginCallbackHandler":
        return
    if mechanism == OAUTHBEARER:
        raise ValueError(
            f"{LOGIN_HANDLER}={handler} is for Java only: set {oauth.COMMAND} to a command that prints a token"
        )
    if handler != _DEFAULT_HANDLER:
        raise ValueError(f"{LOGIN_HANDLER}={handler} is not supported")
