"""Tests of two principals on a real broker with ACLs. Only the principal of the remediation config may write
markers."""

from __future__ import annotations

from pathlib import Path

import pytest
from fastapi.testclient import TestClient

from service.app import create_app
from service.domain.findings.kinds import Resolution
from service.domain.transaction_log.states import TOPIC as LOG
from service.kafka.settings import Clients, ClientSettings
from tests.helpers.acls import BrokerWithAcls, cluster, topic
from tests.helpers.brokers import on
from tests.integration.hang_lab import CLUSTER, hang_lab
from tests.integration.resolve_clients import KEYS
from tests.lab.hangs import UNGUARDED, never_added, orphan_producer

pytestmark = [pytest.mark.broker, pytest.mark.spark, pytest.mark.in_turns]

READER, WRITER = "reader", "writer"
KEY = {"Authorization": f"Bearer {KEYS['ann']}"}


@on("3.9.2")
def test_only_the_principal_of_remediation_config_can_write(tmp_path: Path, version: str) -> None:
    with (
        BrokerWithAcls(version, tmp_path, [READER, WRITER], UNGUARDED) as guarded,
        hang_lab(guarded.broker, tmp_path) as lab,
    ):
        lab.create_topic("payments")
        hang = never_added(orphan_producer(lab.connection, "nobody"), "payments", 0)
        finding = lab.wait_until_confirmed(hang).id
        for user in (READER, WRITER):
            for name in (LOG, "payments"):
                guarded.allow(user, topic(name), "READ")
        guarded.allow(WRITER, cluster(), "ALTER")
        reads, writes = (ClientSettings.load(guarded.bootstrap, guarded.properties(user)) for user in (READER, WRITER))
        resolve = f"/api/v1/clusters/{CLUSTER}/findings/{finding}/resolve"
        with TestClient(create_app(lab.app.url, kafka=reads, operators=KEYS)) as client:
            refused = client.post(resolve, json={"dry_run": False}, headers=KEY)
        assert refused.status_code == 502, refused.text
        assert "ALTER" in refused.json()["detail"]
        app = create_app(lab.app.url, kafka=reads, operators=KEYS, remediation=Clients(writes, {}))
        with TestClient(app) as client:
            written = client.post(resolve, json={"dry_run": False}, headers=KEY)
        assert written.status_code == 200, written.text
        assert written.json()["executed"]
        lab.wait_until_resolved(hang, Resolution.OUR_MARKER)
