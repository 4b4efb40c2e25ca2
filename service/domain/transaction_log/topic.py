"""The coordinators' log: its topic in Kafka, and its name as a source in the store, metrics and REST."""

from __future__ import annotations

from typing import Final

TOPIC: Final = "__transaction_state"
SOURCE: Final = "transaction_state"
