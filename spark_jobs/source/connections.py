"""Connections of an executor's process, kept between tasks: workers are used again, and so is what they opened."""

from __future__ import annotations

from service.kafka.client import KafkaClient
from service.kafka.settings import ClientSettings

clients: dict[str, KafkaClient] = {}


def connected(settings: ClientSettings) -> KafkaClient:
    """The one to this cluster. Raises KafkaUnavailable or KafkaRefused."""
    key = settings.to_json()
    if key not in clients:
        clients[key] = KafkaClient(settings)
    return clients[key]


def forget(settings: ClientSettings) -> None:
    """Closed; the next one is made anew."""
    if stale := clients.pop(settings.to_json(), None):
        stale.close()
