"""Converts client settings to the text that Spark passes to its readers, and back."""

from __future__ import annotations

from service.kafka.settings import ClientSettings
from spark_jobs.source.reader_settings import OPTION, ReaderSettings


def option_of(client: ClientSettings) -> str:
    return ReaderSettings(client=client).option[OPTION]


def through_spark(client: ClientSettings) -> ClientSettings:
    return ReaderSettings.model_validate_json(option_of(client)).client
