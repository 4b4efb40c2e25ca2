"""Lists forms of client.properties that Kafka's own tools accept or refuse, and runs the broker on which these forms
are tried."""

from __future__ import annotations

import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Final, NamedTuple

from tests.helpers.certificates import Authority, pkcs12
from tests.helpers.secured_broker import (
    LITERAL_SECRET,
    LITERAL_USER,
    SCRAM_SECRET,
    SCRAM_USER,
    VAULT_SECRET,
    VAULT_USER,
    SecuredBroker,
    login,
)

_CLASSES: Final = "org.apache.kafka.common.config.provider"
_MODULE: Final = "org.apache.kafka.common.security.plain.PlainLoginModule"
STORE_PASSWORD: Final = "changeit"
ENVIRONMENT: Final = {"KAFKA_ROW_PASSWORD": VAULT_SECRET, "ROW_PASSWORD": VAULT_SECRET}

SASL: Final = "security.protocol=SASL_PLAINTEXT\nsasl.mechanism=PLAIN\n"
TLS: Final = "security.protocol=SSL\n"
PEM: Final = "ssl.truststore.type=PEM\nssl.truststore.location=SEC/authority.pem\n"
_FILE: Final = f"config.providers=file\nconfig.providers.file.class={_CLASSES}.FileConfigProvider\n"
_DIR: Final = f"config.providers=dir\nconfig.providers.dir.class={_CLASSES}.DirectoryConfigProvider\n"
_ENV: Final = f"config.providers=env\nconfig.providers.env.class={_CLASSES}.EnvVarConfigProvider\n"
_IN_FILE: Final = "${file:SEC/p.properties:password}"


class Row(NamedTuple):
    """A row of the table.

    - `shown`: the input as the document shows it.
    - `text`: the text of the file, with SEC for the folder of secrets, and //HOST for // and the address.
    - `listener`: the attribute of SecuredBroker that has the address.
    - `servers`: the value of the flag for the bootstrap servers, with HOST for the address; None if the file names the
      servers.
    """

    shown: str
    listener: str
    text: str
    servers: str | None = "HOST"


def _login(password: str, user: str = VAULT_USER) -> str:
    return f'sasl.jaas.config={_MODULE} required username="{user}" password="{password}";\n'


_LOGIN: Final = _login(VAULT_SECRET)
_TRUST_P12: Final = f"ssl.truststore.location=SEC/authority.p12\nssl.truststore.password={STORE_PASSWORD}\n"
_OWN_P12: Final = f"ssl.keystore.password={STORE_PASSWORD}\nssl.keystore.location=SEC/client.p12\n"

ROWS: Final = (
    Row("no file, `--bootstrap-server HOST:PORT`", "admin", ""),
    Row("`PLAINTEXT://HOST:PORT`", "admin", "", "PLAINTEXT://HOST"),
    Row(
        "`SASL_PLAINTEXT://HOST:PORT,HOST:PORT`, one with and one without a scheme",
        "clear",
        SASL + _LOGIN,
        "SASL_PLAINTEXT://HOST,HOST",
    ),
    Row("`SSL://HOST:PORT` with `security.protocol=SASL_PLAINTEXT`", "clear", SASL + _LOGIN, "SSL://HOST"),
    Row(
        "`bootstrap.servers` in the file only",
        "clear",
        f"bootstrap.servers=SASL_PLAINTEXT://HOST\n{SASL}{_LOGIN}",
        None,
    ),
    Row("a login in the file", "clear", SASL + _LOGIN),
    Row("a login with a wrong password", "clear", SASL + _login("guess")),
    Row(
        '`password="${file:SEC/p.properties:password}"` in `sasl.jaas.config`, with FileConfigProvider',
        "clear",
        _FILE + SASL + _login(_IN_FILE),
    ),
    Row(
        '`password="${dir:SEC:password}"`, with DirectoryConfigProvider',
        "clear",
        _DIR + SASL + _login("${dir:SEC:password}"),
    ),
    Row(
        '`password="${env:KAFKA_ROW_PASSWORD}"`, with EnvVarConfigProvider',
        "clear",
        _ENV + SASL + _login("${env:KAFKA_ROW_PASSWORD}"),
    ),
    Row(
        "`sasl.jaas.config=${file:…}`, the whole login",
        "clear",
        f"{_FILE}{SASL}sasl.jaas.config=${{file:SEC/p.properties:jaas}}\n",
    ),
    Row(
        "`SASL_SSL://HOST:PORT`, SCRAM-SHA-512, a PKCS12 trust store, both passwords by `${file:…}`",
        "login",
        f"{_FILE}security.protocol=SASL_SSL\nsasl.mechanism=SCRAM-SHA-512\n"
        "sasl.jaas.config=${file:SEC/p.properties:scram}\nssl.truststore.type=PKCS12\n"
        "ssl.truststore.password=${file:SEC/p.properties:store}\nssl.truststore.location=SEC/authority.p12\n",
        "SASL_SSL://HOST",
    ),
    Row(
        "`security.protocol=${file:…}`",
        "clear",
        f"{_FILE}security.protocol=${{file:SEC/p.properties:protocol}}\nsasl.mechanism=PLAIN\n{_LOGIN}",
    ),
    Row(
        "`ssl.truststore.certificates=${dir:SEC:authority.pem}`, PEM text",
        "tls",
        f"{_DIR}{TLS}ssl.truststore.type=PEM\nssl.truststore.certificates=${{dir:SEC:authority.pem}}\n",
    ),
    Row(
        "`param.allowed.paths` with the folder of the file",
        "clear",
        f"{_FILE}config.providers.file.param.allowed.paths=SEC\n{SASL}{_login(_IN_FILE)}",
    ),
    Row(
        "`param.allowed.paths` without the folder of the file",
        "clear",
        f"{_FILE}config.providers.file.param.allowed.paths=/usr\n{SASL}{_login(_IN_FILE)}",
    ),
    Row(
        "`param.allowlist.pattern=KAFKA_.*` and `${env:KAFKA_ROW_PASSWORD}`",
        "clear",
        f"{_ENV}config.providers.env.param.allowlist.pattern=KAFKA_.*\n{SASL}{_login('${env:KAFKA_ROW_PASSWORD}')}",
    ),
    Row(
        "`param.allowlist.pattern=KAFKA_.*` and `${env:ROW_PASSWORD}`",
        "clear",
        f"{_ENV}config.providers.env.param.allowlist.pattern=KAFKA_.*\n{SASL}{_login('${env:ROW_PASSWORD}')}",
    ),
    Row("`${file:…}` of a file that is missing", "clear", _FILE + SASL + _login("${file:SEC/none:password}")),
    Row("`${file:…}` of a key that is missing", "clear", _FILE + SASL + _login("${file:SEC/p.properties:none}")),
    Row(
        "`config.providers=vault` with a class of another vendor",
        "clear",
        f"config.providers=vault\nconfig.providers.vault.class=com.example.VaultConfigProvider\n{SASL}{_login('${vault:kafka:password}')}",
    ),
    Row(
        "`config.providers=vault` without a class",
        "clear",
        f"config.providers=vault\n{SASL}{_login('${vault:kafka:password}')}",
    ),
    Row("`${file:…}` without a declared provider", "clear", SASL + _login(LITERAL_SECRET, LITERAL_USER)),
    Row("PEM trust store", "tls", TLS + PEM),
    Row("PEM trust store without `ssl.truststore.type`", "tls", f"{TLS}ssl.truststore.location=SEC/authority.pem\n"),
    Row("PEM trust store with `ssl.truststore.password`", "tls", f"{TLS}{PEM}ssl.truststore.password=x\n"),
    Row("PKCS12 trust store", "tls", f"{TLS}ssl.truststore.type=PKCS12\n{_TRUST_P12}"),
    Row(
        "PKCS12 trust store, its password before its location and its type last",
        "tls",
        f"{TLS}ssl.truststore.password={STORE_PASSWORD}\nssl.truststore.location=SEC/authority.p12\nssl.truststore.type=PKCS12\n",
    ),
    Row("PKCS12 trust store, called JKS", "tls", f"{TLS}ssl.truststore.type=JKS\n{_TRUST_P12}"),
    Row(
        "PKCS12 trust store with a wrong password",
        "tls",
        f"{TLS}ssl.truststore.type=PKCS12\nssl.truststore.location=SEC/authority.p12\nssl.truststore.password=guess\n",
    ),
    Row(
        "JKS trust store",
        "tls",
        f"{TLS}ssl.truststore.location=SEC/authority.jks\nssl.truststore.password={STORE_PASSWORD}\n",
    ),
    Row(
        "a trust store that is missing",
        "tls",
        f"{TLS}ssl.truststore.location=SEC/none.p12\nssl.truststore.password=x\n",
    ),
    Row(
        "PKCS12 key store and trust store, where a certificate is demanded",
        "mutual",
        f"{TLS}{_OWN_P12}{_TRUST_P12}ssl.keystore.type=PKCS12\nssl.truststore.type=PKCS12\n",
    ),
    Row("`ssl.enabled.protocols=TLSv1.2`", "tls", f"{TLS}{PEM}ssl.enabled.protocols=TLSv1.2\n"),
    Row("`ssl.enabled.protocols=TLSv1.1`", "tls", f"{TLS}{PEM}ssl.enabled.protocols=TLSv1.1\n"),
    Row("`ssl.protocol=TLSv1.2`", "tls", f"{TLS}{PEM}ssl.protocol=TLSv1.2\n"),
    Row(
        "`ssl.cipher.suites=TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384`",
        "tls",
        f"{TLS}{PEM}ssl.cipher.suites=TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384\n",
    ),
    Row("`ssl.cipher.suites=TLS_NONE`", "tls", f"{TLS}{PEM}ssl.cipher.suites=TLS_NONE\n"),
    Row(
        "`ssl.secure.random.implementation`, `ssl.provider`, `ssl.trustmanager.algorithm`",
        "tls",
        f"{TLS}{PEM}ssl.secure.random.implementation=SHA1PRNG\nssl.provider=SunJSSE\nssl.trustmanager.algorithm=PKIX\n",
    ),
    Row(
        "`ssl.endpoint.identification.algorithm` without `=`",
        "tls",
        f"{TLS}{PEM}ssl.endpoint.identification.algorithm\n",
    ),
    Row(
        "`ssl.endpoint.identification.algorithm=NONE`", "tls", f"{TLS}{PEM}ssl.endpoint.identification.algorithm=NONE\n"
    ),
    Row(
        "`ssl.engine.factory.class` of another vendor",
        "tls",
        f"{TLS}{PEM}ssl.engine.factory.class=com.example.Factory\n",
    ),
    Row(
        "`ssl.trustore.location`, a misspelt key",
        "tls",
        f"{TLS}ssl.trustore.type=PEM\nssl.trustore.location=SEC/authority.pem\n",
    ),
    Row("a trust store, but no `security.protocol`", "admin", "ssl.truststore.location=SEC/none.jks\n"),
    Row(
        "`sasl.kerberos.kinit.cmd`, `sasl.login.class=…DefaultLogin`",
        "clear",
        f"{SASL}{_LOGIN}sasl.kerberos.kinit.cmd=/usr/bin/kinit\nsasl.login.class=org.apache.kafka.common.security.authenticator.DefaultLogin\n",
    ),
    Row("`sasl.login.class` of another vendor", "clear", f"{SASL}{_LOGIN}sasl.login.class=com.example.Login\n"),
    Row(
        "`sasl.login.callback.handler.class` of another vendor",
        "clear",
        f"{SASL}{_LOGIN}sasl.login.callback.handler.class=com.example.Handler\n",
    ),
    Row(
        "`sasl.client.callback.handler.class` of another vendor",
        "clear",
        f"{SASL}{_LOGIN}sasl.client.callback.handler.class=com.example.Handler\n",
    ),
    Row(
        "a login module of another vendor",
        "clear",
        f'{SASL}sasl.jaas.config=com.example.VaultLoginModule required username="path" password="key";\n',
    ),
    Row("`sasl.jaas.config` without its semicolon", "clear", SASL + _LOGIN.replace(";", "")),
    Row("`sasl.jaas.config` is missing", "clear", SASL),
    Row("`security.protocol=SASL_PLAIN`", "clear", f"security.protocol=SASL_PLAIN\nsasl.mechanism=PLAIN\n{_LOGIN}"),
    Row("`security.protocol` without a value", "clear", f"security.protocol\nsasl.mechanism=PLAIN\n{_LOGIN}"),
    Row(
        "`security.protocol=sasl_plaintext`",
        "clear",
        f"security.protocol=sasl_plaintext\nsasl.mechanism=PLAIN\n{_LOGIN}",
    ),
    Row(
        "`sasl.mechanism=SCRAM-SHA-1`",
        "clear",
        f"security.protocol=SASL_PLAINTEXT\nsasl.mechanism=SCRAM-SHA-1\n{_LOGIN}",
    ),
    Row("`sasl.mechanism` is missing", "clear", f"security.protocol=SASL_PLAINTEXT\n{_LOGIN}"),
    Row("spaces behind values", "clear", f"security.protocol=SASL_PLAINTEXT  \nsasl.mechanism=PLAIN \n{_LOGIN}"),
    Row("a key that is there twice", "clear", f"security.protocol=SSL\n{SASL}{_LOGIN}"),
    Row(
        "`:` and spaces for `=`, continuation lines, `\\u0050LAIN`",
        "clear",
        "security.protocol : SASL_\\\n   PLAINTEXT\nsasl.mechanism \\u0050LAIN\n" + _LOGIN,
    ),
    Row("`\\u12`, half an escape", "clear", f"client.id=\\u12\n{SASL}{_LOGIN}"),
    Row("`max.poll.records=1`, `acks=all`", "clear", f"{SASL}{_LOGIN}max.poll.records=1\nacks=all\n"),
    Row("`retries=many`", "clear", f"{SASL}{_LOGIN}retries=many\n"),
    Row("`client.dns.lookup=nonsense`", "clear", f"{SASL}{_LOGIN}client.dns.lookup=nonsense\n"),
)


class Stage:
    """The files that the rows name, and a broker with every kind of listener."""

    def __init__(self, secured: SecuredBroker) -> None:
        self.secured, self.folder = secured, secured.directory / "sec"
        self.folder.mkdir()
        authority: Authority = secured.authority
        trusted = self.folder / "authority.pem"
        trusted.write_text(authority.certificate.read_text())
        pkcs12_of_java(trusted)
        own = authority.issue("row")
        pkcs12(own, STORE_PASSWORD, trusted).rename(self.folder / "client.p12")
        (self.folder / "password").write_text(VAULT_SECRET)
        scram = login("scram.ScramLoginModule", SCRAM_USER, SCRAM_SECRET)
        (self.folder / "p.properties").write_text(
            f"password={VAULT_SECRET}\nprotocol=SASL_PLAINTEXT\nstore={STORE_PASSWORD}\nscram={scram}\n"
            + _LOGIN.replace("sasl.jaas.config=", "jaas=")
        )

    def properties(self, row: Row, more: Mapping[str, str]) -> Path:
        """Writes the file of a row, with the properties `more`, and returns its path."""
        text = row.text.replace("SEC", str(self.folder)).replace("//HOST", f"//{self.address(row)}")
        file = self.folder.parent / "client.properties"
        file.touch(0o600)
        file.write_text(text + "".join(f"{key}={value}\n" for key, value in more.items()))
        return file

    def address(self, row: Row) -> str:
        found: str = getattr(self.secured, row.listener)
        return found

    def servers(self, row: Row) -> str | None:
        return None if row.servers is None else row.servers.replace("HOST", self.address(row))

    def masked(self, text: str) -> str:
        """Returns the text of an outcome without the parts that differ between runs."""
        for found, mask in ((str(self.folder.parent / "client.properties"), "FILE"), (str(self.folder), "SEC")):
            text = text.replace(found, mask)
        for listener in ("admin", "clear", "login", "mutual", "tls"):
            text = text.replace(getattr(self.secured, listener), "HOST:PORT")
        return text


def pkcs12_of_java(trusted: Path) -> None:
    """Makes a PKCS12 and a JKS trust store in the folder of `trusted`, with keytool. Java does not trust the
    certificates in stores that OpenSSL makes."""
    for ending, store_type in ((".p12", "PKCS12"), (".jks", "JKS")):
        flags = ["-noprompt", "-alias", "authority", "-file", str(trusted), "-storetype", store_type]
        where = ["-keystore", str(trusted.with_suffix(ending)), "-storepass", STORE_PASSWORD]
        subprocess.run(["keytool", "-importcert", *flags, *where], check=True, capture_output=True)
