"""Writes client_keys.json, with every key that Kafka's own clients know: `python -m tests.helpers.client_keys`.

AdminClientConfig, ConsumerConfig and ProducerConfig print their keys as HTML. The file also records how txnscope treats
each key in a client.properties. Review changes to the file as changes of a contract.
"""

from __future__ import annotations

import html
import json
import os
import re
import subprocess
from collections.abc import Iterator, Mapping
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final, Literal

from deploy.demo.jars import fetch
from service.kafka.errors import BadClientConfig
from service.kafka.settings import ClientSettings
from spark_jobs.runtime.java import find_java
from tests.helpers.brokers import VERSIONS
from tests.helpers.paths import ROOT

FILE: Final = ROOT / "tests" / "service" / "kafka" / "client_keys.json"
CLIENTS: Final = {
    "admin": "admin.AdminClientConfig",
    "consumer": "consumer.ConsumerConfig",
    "producer": "producer.ProducerConfig",
}
Outcome = Literal["honoured", "ignored", "refused"]

_ENTRY: Final = re.compile(
    r'<a id="([^"]+)"></a>.*?<th>Type:</th><td>.*?</td>.*?<th>Valid Values:</th><td>(.*?)</td>', re.DOTALL
)
_CHOICE: Final = re.compile(r"(?:\(case insensitive\) )?\[([A-Za-z_]\w*(?:, \w+)*)\]")
_LOGIN: Final = "org.apache.kafka.common.security.scram.ScramLoginModule required username=u password=p;"
_SAMPLES: Final = {
    "bootstrap.servers": "SSL://h:1",
    "config.providers": "",
    "sasl.jaas.config": _LOGIN,
    "sasl.mechanism": "SCRAM-SHA-512",
    "sasl.oauthbearer.header.urlencode": "true",
    "security.protocol": "SASL_SSL",
    "ssl.enabled.protocols": "TLSv1.3",
    "ssl.cipher.suites": "TLS_AES_256_GCM_SHA384",
    "ssl.endpoint.identification.algorithm": "",
    "ssl.keymanager.algorithm": "PKIX",
    "ssl.keystore.type": "PEM",
    "ssl.protocol": "TLSv1.3",
    "ssl.trustmanager.algorithm": "PKIX",
    "ssl.truststore.type": "PEM",
}
"""The value to try for some keys. Other keys are tried with the first value of their closed set, or with "1"."""
_STORES: Final = ("ssl.keystore.", "ssl.truststore.")


def main() -> None:
    lines = (f"{json.dumps(key)}: {json.dumps(entry)}" for key, entry in document().items())
    FILE.write_text("{\n" + ",\n".join(lines) + "\n}\n")


def document() -> dict[str, dict[str, Any]]:
    """Returns a mapping from each key to the clients and versions that know the key; its values, if they are a closed
    set; and how txnscope treats the key."""
    found: dict[str, dict[str, Any]] = {}
    for version in sorted(VERSIONS):
        for client in CLIENTS:
            for key, values in _printed(version, client):
                entry = found.setdefault(key, {"clients": [], "versions": [], "values": values})
                entry["clients"] = sorted({*entry["clients"], client})
                entry["versions"] = sorted({*entry["versions"], version})
    for key, entry in found.items():
        if not entry["values"]:
            del entry["values"]
        entry["here"] = outcome(key, sample(key, entry))
    return dict(sorted(found.items()))


def recorded() -> dict[str, dict[str, Any]]:
    found: dict[str, dict[str, Any]] = json.loads(FILE.read_text())
    return found


def sample(key: str, entry: Mapping[str, Any]) -> str:
    """Returns the value with which the key is tried."""
    first: str = next(iter(entry.get("values", ())), "1")
    return _SAMPLES.get(key, first)


def outcome(key: str, value: str) -> Outcome:
    """Returns how txnscope treats a client.properties in which the key has this value. The file also has a SASL login.
    The login is over TLS, except for keys of a key store or trust store."""
    lines = {name: _SAMPLES[name] for name in ("security.protocol", "sasl.mechanism", "sasl.jaas.config")}
    if key.startswith(_STORES):  # over TLS, the file of the store would be read
        lines["security.protocol"] = "SASL_PLAINTEXT"
    lines[key] = value
    with TemporaryDirectory() as directory:
        file = Path(directory) / "client.properties"
        file.write_text("".join(f"{name}={text}\n" for name, text in lines.items()))
        try:
            settings = ClientSettings.load("h:1", file)
        except BadClientConfig as e:
            assert key in str(e)  # noqa: PT017  # not of a test
            return "refused"
    ignored = [note for note in settings.notes(None) if "ignored (" in note]
    return "ignored" if any(re.search(rf"[ ,]{re.escape(key)}(,|$)", note) for note in ignored) else "honoured"


def _printed(version: str, client: str) -> Iterator[tuple[str, list[str]]]:
    """Yields the keys of a client, each with its closed set of values (sorted; empty if the set is not closed)."""
    command = [find_java(os.environ).command, "-XX:TieredStopAtLevel=1", "-cp", f"{fetch(version)}/*"]
    page = subprocess.run(
        [*command, f"org.apache.kafka.clients.{CLIENTS[client]}"], capture_output=True, text=True, check=True
    ).stdout
    for key, valid in _ENTRY.findall(page):
        closed = _CHOICE.fullmatch(html.unescape(valid))
        yield key, sorted(closed[1].split(", ")) if closed else []


if __name__ == "__main__":
    main()
