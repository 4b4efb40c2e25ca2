"""Makes a certificate authority for tests, with the openssl program."""

from __future__ import annotations

import subprocess
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Final

_CONFIG: Final = """[ca]
default_ca = own
[own]
database = {0}/index
serial = {0}/serial
new_certs_dir = {0}
default_md = sha256
policy = any
copy_extensions = copy
unique_subject = no
[any]
commonName = supplied
"""


class Authority:
    """A certificate authority. The certificates are PEM files in `directory`."""

    def __init__(self, directory: Path, name: str = "authority") -> None:
        directory.mkdir(parents=True, exist_ok=True)
        self._directory = directory
        self.certificate, self._key, self._config = (directory / f"{name}.{end}" for end in ("pem", "key", "cnf"))
        self._config.write_text(_CONFIG.format(directory))
        (directory / "index").touch()
        (directory / "serial").write_text("01\n")
        _openssl(
            "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-subj", f"/CN={name}", "-days", "2",
            "-keyout", self._key, "-out", self.certificate,
        )  # fmt: skip

    def issue(self, name: str, *, life: timedelta = timedelta(days=1), key_password: str | None = None) -> Path:
        """Returns a file with the key and the certificate of `name`, in the form of Java's PEM stores. The
        certificate is also valid for servers at localhost and 127.0.0.1.

        `life` is the time from now until the certificate expires; if it is negative, the certificate has expired.
        `key_password` encrypts the key.
        """
        key, request, certificate, both = (self._directory / f"{name}.{end}" for end in ("key", "csr", "crt", "pem"))
        unlocked = [] if key_password is None else ["-passin", f"pass:{key_password}"]
        _openssl("genpkey", "-algorithm", "RSA", "-pkeyopt", "rsa_keygen_bits:2048", "-out", key)
        if key_password is not None:  # Kafka on Java 17 cannot read OpenSSL's default cipher
            locked = ["-v1", "PBE-SHA1-3DES", "-passout", f"pass:{key_password}"]
            _openssl("pkcs8", "-topk8", "-in", key, *locked, "-out", key.with_suffix(".new"))
            key.with_suffix(".new").replace(key)
        _openssl(
            "req", "-new", "-key", key, *unlocked, "-subj", f"/CN={name}", "-out", request,
            "-addext", "subjectAltName=DNS:localhost,IP:127.0.0.1",
        )  # fmt: skip
        until = datetime.now(UTC) + life
        _openssl(
            "ca", "-batch", "-notext", "-config", self._config, "-cert", self.certificate, "-keyfile", self._key,
            "-in", request, "-out", certificate,
            "-startdate", _time(min(datetime.now(UTC), until) - timedelta(days=1)), "-enddate", _time(until),
        )  # fmt: skip
        new = both.with_suffix(".new")
        new.write_text(key.read_text() + certificate.read_text())
        return new.replace(both)


def pkcs12(pem: Path, password: str, more: Path | None = None) -> Path:
    """Returns a PKCS12 store in the folder of `pem`. The store has the certificates of `pem` and of `more`, and the
    private key of `pem` if there is one."""
    store = pem.with_suffix(".p12")
    key = ["-inkey", str(pem)] if "PRIVATE KEY" in pem.read_text() else ["-nokeys"]
    added = ["-certfile", str(more)] if more is not None else []
    _openssl("pkcs12", "-export", "-in", pem, *key, *added, "-out", store, "-passout", f"pass:{password}")
    return store


def _time(at: datetime) -> str:
    return at.strftime("%Y%m%d%H%M%SZ")


def _openssl(*arguments: str | Path) -> None:
    subprocess.run(["openssl", *arguments], check=True, capture_output=True)
