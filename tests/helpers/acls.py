"""Runs a broker with ACLs. On one listener, users log in with SASL/PLAIN. The other listener needs no login, and treats
every client as a super user."""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import Final, NamedTuple

import javaproperties
from kafka.protocol.admin import CreateAclsRequest, DescribeAclsRequest

from deploy.demo.broker import Broker
from tests.helpers.brokers import connect, free_ports, second_listener
from tests.helpers.waiting import wait_until

_LOGIN: Final = "org.apache.kafka.common.security.plain.PlainLoginModule"
CLUSTER: Final = (4, "kafka-cluster")
_ALLOW, _DENY = 3, 2
_ANY = 1
_LITERAL, _PREFIXED = 3, 4
_OPERATIONS: Final = {"READ": 3, "WRITE": 4, "CREATE": 5, "ALTER": 7, "DESCRIBE": 8, "DESCRIBE_CONFIGS": 10}
_TOOLS: Final = {"3": "kafka.admin.AclCommand", "4": "org.apache.kafka.tools.AclCommand"}


class Resource(NamedTuple):
    """The resource of an ACL. `kind` and `pattern` are Kafka's numbers (ResourceType, PatternType)."""

    kind: int
    name: str
    pattern: int = _LITERAL


def topic(name: str = "*") -> Resource:
    return Resource(2, name)


def group(name: str = "*") -> Resource:
    return Resource(3, name)


def transactional_id(name: str = "*", *, is_prefix: bool = False) -> Resource:
    return Resource(5, name, _PREFIXED if is_prefix else _LITERAL)


def cluster() -> Resource:
    return Resource(*CLUSTER)


class BrokerWithAcls:
    """A broker on which users initially have no permission: `with BrokerWithAcls("4.3.1", directory, ["ann"]) as
    guarded`.

    `users` log in at `bootstrap`; `properties(user)` writes a user's client.properties, and returns its path. At
    `admin`, every client may do everything.
    """

    def __init__(
        self,
        version: str,
        directory: Path,
        users: list[str],
        properties: Mapping[str, str] | None = None,
        passwords: Mapping[str, str] | None = None,
    ) -> None:
        self.version, self._directory = version, directory
        port, self._door = free_ports(2)
        self._passwords = dict(passwords or {user: f"{user}-secret" for user in users})
        logins = " ".join(f"user_{user}={quoted(self._passwords[user])}" for user in users)
        self.broker = Broker(
            version,
            port,
            directory / "kafka",
            second_listener(port, self._door, self._door, "GUARDED", "SASL_PLAINTEXT")
            | {
                "listener.name.guarded.sasl.enabled.mechanisms": "PLAIN",
                "listener.name.guarded.plain.sasl.jaas.config": escaped(f"{_LOGIN} required {logins};"),
                "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
                "super.users": "User:ANONYMOUS",
                **(properties or {}),
            },
            heap_mb=384,
        )

    @property
    def admin(self) -> str:
        """The address of the plaintext listener, on which every client is a super user."""
        return self.broker.bootstrap

    @property
    def bootstrap(self) -> str:
        return f"127.0.0.1:{self._door}"

    def properties(self, user: str) -> Path:
        file = self._directory / f"{user}.properties"
        login = escaped(f'{_LOGIN} required username="{user}" password={quoted(self._passwords[user])};')
        file.touch(0o600)
        file.write_text(f"security.protocol=SASL_PLAINTEXT\nsasl.mechanism=PLAIN\nsasl.jaas.config={login}\n")
        return file

    def allow(self, user: str, resource: Resource, *operations: str) -> None:
        self._create(user, resource, operations, _ALLOW)

    def deny(self, user: str, resource: Resource, *operations: str) -> None:
        """Denies `operations`. A denial overrides all granted permissions."""
        self._create(user, resource, operations, _DENY)

    def run(self, line: str) -> str:
        """Runs a `kafka-acls.sh` command line as a user would paste it, but at the address `admin`. Waits until the
        broker has the ACLs, and returns the output."""
        tool, *arguments = shlex.split(line)
        assert tool == "kafka-acls.sh"
        for flag, value in (("--bootstrap-server", self.admin), ("--command-config", str(self._no_config()))):
            arguments[arguments.index(flag) + 1] = value
        user = arguments[arguments.index("--allow-principal") + 1]
        before = self._rules(user)
        said = self.broker.tool(_TOOLS[self.version[0]], *arguments)
        self._wait_for_more(user, before)
        return said

    def _no_config(self) -> Path:
        file = self._directory / "admin.properties"
        file.touch()
        return file

    def _create(self, user: str, resource: Resource, operations: tuple[str, ...], permission: int) -> None:
        one = CreateAclsRequest.AclCreation
        creations = [
            one(
                resource_type=resource.kind,
                resource_name=resource.name,
                resource_pattern_type=resource.pattern,
                principal=f"User:{user}",
                host="*",
                operation=_OPERATIONS[operation],
                permission_type=permission,
            )
            for operation in operations
        ]
        before = self._rules(f"User:{user}")
        with connect(self.admin) as client:
            results = client.ask(CreateAclsRequest(creations=creations)).results
        assert [result.error_code for result in results] == [0] * len(operations)
        self._wait_for_more(f"User:{user}", before)

    def _wait_for_more(self, user: str, before: int) -> None:
        """Waits until the broker has more than `before` ACLs of `user`. The broker gets new ACLs all at once, a moment
        after the controller has accepted them."""
        wait_until(lambda: self._rules(user), lambda rules: rules > before, f"more than {before} ACLs of {user}")

    def _rules(self, user: str) -> int:
        request = DescribeAclsRequest(
            resource_type_filter=_ANY,
            resource_name_filter=None,
            pattern_type_filter=_ANY,
            principal_filter=user,
            host_filter=None,
            operation=_ANY,
            permission_type=_ANY,
        )
        with connect(self.admin) as client:
            return sum(len(resource.acls) for resource in client.ask(request).resources)

    def __enter__(self) -> BrokerWithAcls:
        self.broker.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, e: BaseException | None, trace: TracebackType | None) -> None:
        self.broker.kill()


def escaped(text: str) -> str:
    """Returns `text` as the value of a Java properties file."""
    return javaproperties.escape(text).replace("\\:", ":").replace("\\=", "=").replace("\\#", "#").replace("\\!", "!")


def quoted(text: str) -> str:
    """Returns `text` in quotes, as an option of a JAAS login."""
    inside = text.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{inside}"'
