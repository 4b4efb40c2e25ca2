"""Translates a cluster's connection settings for librdkafka, which the producers and consumers of confluent-kafka use.

Source: CONFIGURATION.md of librdkafka 2.16.
"""

from __future__ import annotations

import time
from typing import Any, Final

from service.kafka.client_properties import stores
from service.kafka.oauth import UNKNOWN_LIFE_MS, TokenProvider
from service.kafka.settings import ClientSettings
from service.kafka.tls import HOST_CHECK

_SAME: Final = {
    "client_id": "client.id",
    "security_protocol": "security.protocol",
    "sasl_mechanism": "sasl.mechanisms",
    "sasl_plain_username": "sasl.username",
    "sasl_plain_password": "sasl.password",
    "sasl_kerberos_service_name": "sasl.kerberos.service.name",
}
_OF_TLS: Final = {
    stores.TRUSTED: "ssl.ca.pem",
    stores.CHAIN: "ssl.certificate.pem",
    stores.KEY: "ssl.key.pem",
    stores.KEY_PASSWORD: "ssl.key.password",
}


def config(settings: ClientSettings) -> dict[str, Any]:
    """Returns librdkafka's settings. Each call reads client.properties, and the files that client.properties names.
    Raises BadClientConfig for a mistake in the file."""
    latest = settings.latest()
    arguments = latest.kafka_python()
    out: dict[str, Any] = {"bootstrap.servers": ",".join(latest.bootstrap_servers)}
    out |= {theirs: arguments[name] for name, theirs in _SAME.items() if name in arguments}
    if (provider := arguments.get("sasl_oauth_token_provider")) is not None:
        out["oauth_cb"] = lambda _: _token_of(provider)
    if str(out.get("security.protocol", "")).endswith("SSL"):
        properties = dict(latest.portable().properties)
        out |= {theirs: properties[key] for key, theirs in _OF_TLS.items() if properties.get(key)}
        out["ssl.endpoint.identification.algorithm"] = properties.get(HOST_CHECK, "https") or "none"
    return out


def _token_of(provider: TokenProvider) -> tuple[str, float, str, dict[str, str]]:
    """Returns the token, the time at which it expires (seconds since the epoch), an empty principal, and the SASL
    extensions. A token with an unknown time of expiry is taken to expire after UNKNOWN_LIFE_MS."""
    token = provider.current()
    ends_s = time.time() + UNKNOWN_LIFE_MS / 1000 if token.expires_at_ms is None else token.expires_at_ms / 1000
    return token.text, ends_s, "", provider.extensions()
