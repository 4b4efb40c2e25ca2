"""Converts client settings to text and back, as Spark does when it passes them to its readers."""

from __future__ import annotations

from service.kafka.settings import ClientSettings
from spark_jobs.source.reader_settings import OPTION, ReaderSettings


def option_of(client: ClientSettings) -> str:
    return ReaderSettings(client=client).option[OPTION]


def through_spark(client: ClientSettings) -> ClientSettings:
    return ReaderSettings.model_validate_json(option_of(client)).client
