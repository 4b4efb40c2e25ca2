"""Through a login and without permissions: bytes of our own go the library's way, and a refusal is no number."""

from __future__ import annotations

from pathlib import Path

import pytest

from service.kafka import errors
from service.kafka.client import KafkaClient
from service.kafka.cluster import Leader, TopicLayout, all_topics
from service.kafka.ends import Ends, EndsWatcher
from service.kafka.group_descriptions import describe_groups
from service.kafka.groups import committed
from service.kafka.markers import write_marker
from service.kafka.producers import Producers, describe_producers
from service.kafka.settings import ClientSettings
from tests.helpers.acls import BrokerWithAcls, topic
from tests.helpers.brokers import connect
from tests.helpers.waiting import wait_for
from tests.service.kafka.asking import new_topic, open_transaction

pytestmark = pytest.mark.broker

NODE = 1
CLUSTER_REFUSED, GROUP_REFUSED = 31, 30


@pytest.mark.parametrize("version", ["4.3.1"])
def test_what_somebody_with_describe_on_one_topic_sees(version: str, tmp_path: Path) -> None:
    with BrokerWithAcls(version, tmp_path, ["ann"]) as guarded:
        with connect(guarded.admin) as admin:
            for name in ("seen", "hidden"):
                new_topic(admin, guarded.admin, name)
        guarded.allow("ann", topic("seen"), "DESCRIBE")
        settings = ClientSettings.load(guarded.bootstrap, guarded.properties("ann"))
        with (
            open_transaction(guarded.admin, "seen-and-hidden", "seen"),
            KafkaClient(settings) as client,
        ):
            layouts = wait_for(lambda: all_topics(client).layouts, "the topic that may be seen")
            assert layouts.keys() == {"seen"}
            hidden = TopicLayout("hidden", "", {0: Leader(NODE, 0)})
            assert EndsWatcher(client).sample(layouts | {"hidden": hidden}, with_start=True) == {
                ("seen", 0): Ends(0, 0, 1, errors.NONE),
                ("seen", 1): Ends(0, 0, 0, errors.NONE),
                ("hidden", 0): Ends(-1, -1, -1, errors.TOPIC_AUTHORIZATION_FAILED),
            }
            assert describe_producers(client, NODE, {"seen": [0]}) == {
                ("seen", 0): Producers(errors.TOPIC_AUTHORIZATION_FAILED, ())
            }
            assert describe_groups(client, NODE, ["some-group"]) == {"some-group": None}
            assert committed(client, NODE, ["some-group"], require_stable=True)["some-group"] == (GROUP_REFUSED, {})
            refused = write_marker(
                client,
                NODE,
                topic="seen",
                partition=0,
                producer_id=0,
                producer_epoch=0,
                coordinator_epoch=0,
                commit=False,
            )
            assert refused == CLUSTER_REFUSED
