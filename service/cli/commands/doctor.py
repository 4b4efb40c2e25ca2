"""`txnscope doctor`: prints what the principal may see of a cluster, which verdicts this allows, and which ACLs are
missing."""

from __future__ import annotations

from argparse import Namespace
from textwrap import fill
from typing import Final

from service.canary.configuration import CanaryTable
from service.cli.doctor.examination import Wish, examine, examine_canary, principal_of, read_records
from service.cli.errors import FINE, FOUND, UNREACHABLE, CommandFailed
from service.cli.kafka import canary_plans, client_settings
from service.cli.text import table
from service.domain.doctor import acls
from service.domain.doctor.canary import canary_lines
from service.domain.doctor.cluster_report import ClusterReport
from service.domain.doctor.head import head
from service.domain.doctor.lines import GAP, Line, lines, to_resolve
from service.domain.doctor.verdicts import verdicts
from service.kafka.client import KafkaClient
from service.kafka.errors import BadClientConfig, KafkaFailure
from service.kafka.settings import ClientSettings
from service.settings import Settings

_WIDTH: Final = 100


def run(_flags: Namespace, settings: Settings) -> int:
    """Prints the report. Returns 0 if everything can be seen, else 1. Raises CommandFailed: code 2 for an address, file
    or key that cannot be used; 3 if no broker can be reached."""
    settings = settings.of_one_cluster()
    client_config = client_settings(settings)
    try:
        with KafkaClient(client_config, client_id="txnscope-doctor") as client:
            seen = examine(client, client_config, Wish(settings.topics, settings.mirrored))
    except BadClientConfig as error:
        raise CommandFailed(str(error)) from error
    except KafkaFailure as error:
        raise CommandFailed(str(error), UNREACHABLE) from error
    if all(broker.why is not None for broker in seen.brokers):
        told = "; ".join(f"broker {b.node} advertises {b.host}:{b.port}: {b.why}" for b in seen.brokers)
        raise CommandFailed(
            f"{seen.bootstrap} answers, but no broker answers at its advertised address: {told}", UNREACHABLE
        )
    found = lines(seen)
    _print(seen, found)
    for canary_config, canary in canary_plans(settings, needs_library=False):
        found += _print_canary(canary_config, canary)
    return FOUND if any(line.mark == GAP for line in found) else FINE


def _print_canary(settings: ClientSettings, canary: CanaryTable) -> list[Line]:
    """Prints what the canary's principal may do, and returns the lines."""
    found = canary_lines(examine_canary(settings, canary.topic))
    principal = principal_of(settings)
    print(f"\ncanary, as {principal or 'a principal that client.properties does not name'}")
    for line in found:
        print(f"{line.mark:<4}  {line.what}: {line.text}")
    if missing := [acl for line in found for acl in line.missing]:
        print("\nfor the canary:")
        for text in acls.lines(missing, principal, ",".join(settings.bootstrap_servers)):
            print(text)
    return found


def _print(seen: ClusterReport, found: list[Line]) -> None:
    who = seen.principal or "a principal that client.properties does not name"
    print(f"cluster {seen.cluster_id or 'with an unknown id'} at {seen.bootstrap}, as {who}")
    first_lines = head(seen, read_records())
    width = max(len(label) for label, _ in first_lines)
    for label, text in first_lines:
        print(fill(text, _WIDTH, initial_indent=f"{label:<{width}}  ", subsequent_indent=" " * (width + 2)))
    print()
    for line in found:
        print(f"{line.mark:<4}  {line.what}: {line.text}")
    rows = [(verdict.what, verdict.trust, verdict.why or "") for verdict in verdicts(seen)]
    print("\n" + table(("VERDICT", "TRUST", "BUT"), rows))
    missing = [acl for line in found for acl in line.missing]
    if missing:
        print("\nto see the rest, run as a principal that may change ACLs (a DENY rule takes precedence):")
        for text in acls.lines(missing, seen.principal, seen.bootstrap):
            print(text)
    marker = to_resolve(seen)
    if marker is not None:
        why, acl = marker
        print(f"\nneeded only for `txnscope resolve --execute`, which writes markers; {why}:")
        for text in acls.lines([acl], seen.principal, seen.bootstrap):
            print(text)
