"""The login of client.properties as arguments of kafka-python: mechanism, name and password, or a source of tokens."""

from __future__ import annotations

import importlib.util
from collections.abc import Mapping
from typing import Any, Final

from service.kafka import jaas, oauth
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

_MODULES: Final = {
    "org.apache.kafka.common.security.plain.PlainLoginModule": PASSWORDS,
    "org.apache.kafka.common.security.scram.ScramLoginModule": PASSWORDS,
    "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule": (OAUTHBEARER,),
    "security.auth.module.Krb5LoginModule": (GSSAPI,),
}
"""The mechanisms that a login module of JAAS serves. The first three may be shaded, with a package in front; the last
one is com.sun's or com.ibm's. What the options of any other module mean is not known: `password` may be no password."""

_DEFAULT_HANDLER: Final = "org.apache.kafka.common.security.authenticator.AbstractLogin$DefaultLoginCallbackHandler"


def arguments(properties: Mapping[str, str]) -> dict[str, Any]:
    """Returns the arguments that begin with `sasl_`. `properties`: checked, with the values of config providers. Raises
    ValueError naming the key, with no secret in it."""
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
    """Returns the options of the login module: of those for passwords, at least `username` and `password`."""
    try:
        login = jaas.parse(text)
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
        raise ValueError(f"{JAAS}: no username and password in it")
    if login.options.get("tokenauth", "").lower() == "true":
        raise ValueError(f"{JAAS}: tokenauth is not supported")
    return login.options


def _check_handler(mechanism: str, properties: Mapping[str, str]) -> None:
    """Raises ValueError for a class of others that would supply the login."""
    handler = properties.get(LOGIN_HANDLER, "")
    if not handler or oauth.COMMAND in properties:
        return
    if mechanism == OAUTHBEARER and handler.rpartition(".")[2] == "OAuthBearerLoginCallbackHandler":
        return
    if mechanism == OAUTHBEARER:
        raise ValueError(f"{LOGIN_HANDLER}={handler} is for Java only: add a {oauth.COMMAND}")
    if handler != _DEFAULT_HANDLER:
        raise ValueError(f"{LOGIN_HANDLER}={handler} is not supported")
