"""Makes the receiver of each kind from its table in the configuration."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection
from pathlib import Path

from service.notifications.configuration import NotifyTable, check_url
from service.notifications.notification import Receiver, Undelivered


def receiver_of(table: NotifyTable, base: str, watched_clusters: Callable[[], Collection[str]]) -> Receiver:
    """Returns the receiver. Reads no files, because receivers read their files when they send. `base`: the address of
    our pages. `watched_clusters`: a function that returns the Kafka cluster ids to which a receiver of kind kafka must
    not write, unless `allow_watched_cluster` is set."""
    # imported here, because each needs a library of its own
    if table.kind == "apprise":
        from service.notifications.receivers.people import People

        return People(lambda: _lines(table))
    if table.kind == "kafka":
        from service.notifications.receivers.kafka_topic import KafkaTopic

        refused = list if table.allow_watched_cluster else watched_clusters
        return KafkaTopic(lambda: _url(table), table.kafka_config, refused)
    from service.notifications.receivers.http import Alertmanager, Endpoint, Webhook

    endpoint = Endpoint(lambda: _url(table), lambda: _text_of(table.bearer_file), table.ca)
    if table.kind == "alertmanager":
        return Alertmanager(endpoint, base, time.time)
    return Webhook(endpoint, lambda: _text_of(table.secret_file), table.template, time.time)


def _lines(table: NotifyTable) -> list[str]:
    """Returns the address in the table, or the addresses in the file that the table names, one in each line; lines that
    begin with # are comments. Raises Undelivered if there is no address."""
    text = table.url or _text_of(table.url_file) or ""
    lines = [line.strip() for line in text.splitlines() if line.strip() and not line.startswith("#")]
    if not lines:
        raise Undelivered(f"{table.url_file}: no address in it")
    return lines


def _url(table: NotifyTable) -> str:
    """Returns the first address in the table or its file. Raises Undelivered if there is no address, or if the address
    does not fit the kind of receiver."""
    url = _lines(table)[0]
    try:
        check_url(table.kind, url)
    except ValueError as error:
        raise Undelivered(f"{table.url_file}: {error}") from error
    return url.rstrip("/") if table.kind == "alertmanager" else url


def _text_of(file: Path | None) -> str | None:
    """Returns the text of a file of the settings, such as a secret; None without a file. Raises Undelivered if the file
    cannot be read."""
    if file is None:
        return None
    try:
        return file.read_text("utf-8").strip()
    except (OSError, UnicodeDecodeError) as error:
        raise Undelivered(f"{file}: {getattr(error, 'strerror', None) or 'not UTF-8'}") from error
