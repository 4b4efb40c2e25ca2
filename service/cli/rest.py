"""Sends requests to the service's REST API, with the key and certificates of the settings."""

from __future__ import annotations

import json
import re
import ssl
from collections.abc import Mapping, Sequence, Set
from datetime import UTC, datetime, timedelta
from email.utils import parsedate_to_datetime
from functools import cached_property
from http import HTTPStatus
from pathlib import Path
from typing import Any, Final
from urllib.parse import quote, urlencode

from service.cli.errors import UNREACHABLE, USAGE, CommandFailed
from service.http_client import HttpAnswer, NoAnswer, send
from service.settings import Settings


def _read_key(flag: str, file: Path) -> str:
    """Returns the key in the file. Raises CommandFailed if the file or the key cannot be used; the message does not
    show the key."""
    try:
        key = file.read_text("utf-8").strip()
    except (OSError, UnicodeDecodeError) as error:
        why = getattr(error, "strerror", None) or "not a text file"
        raise CommandFailed(f"{flag} {file}: {why}") from error
    if not re.fullmatch(r"[!-~]+", key):
        raise CommandFailed(f"{flag} {file}: the file has to contain one key, and nothing else")
    return key


def _why(error: OSError) -> str:
    return "no certificates in PEM" if isinstance(error, ssl.SSLError) else error.strerror or str(error)


_TIMEOUT_S: Final = 35  # the service itself waits 30 s for its store
_WRITE_TIMEOUT_S: Final = 75  # for its store, then brokers, then its store again (service.api.routes.resolve)
_MOST_REDIRECTS: Final = 10
_PAGE: Final = 200
"""Maximum number of items that the service returns in one page."""

_LIST: Final = frozenset({"items", "next_cursor", "as_of"})
_TRANSACTION: Final = frozenset({"transactional_id", "state", "started_at", "partitions", "coordinator", "counts"})
_FINDING: Final = frozenset({"id", "kind", "severity", "status", "subject", "opened_at", "summary"})
_MUTE: Final = frozenset({"id", "until", "reason", "set_by"})
_ITEMS: Final = {
    "transactions": _TRANSACTION,
    "transaction/timeline": frozenset({"type"}),
    "expiring": _TRANSACTION,
    "applications": frozenset({"name", "kinds", "ids", "open", "counts", "failed_share", "blocked_groups"}),
    "findings": _FINDING,
    "hanging": _FINDING,
    "partitions": frozenset({"topic", "partition", "last_stable_offset", "high_watermark", "judged"}),
    "groups": frozenset({"group", "topic", "partition", "relation", "lag_to_lso", "lag_to_hw"}),
    "audit": frozenset({"at", "action", "outcome", "who", "address", "subject", "detail", "count"}),
    "mutes": _MUTE,
}
_RECEIVER: Final = frozenset({"receiver", "kind", "delivered", "pending", "dropped", "failing_since", "error"})
_CLUSTER: Final = frozenset({"cluster", "partitions", "sources", "truncated"})
_EXPLANATION: Final = frozenset({"spans", "truncated_at", "as_of"})
_SPAN: Final = frozenset({"from", "to", "kind", "producer_id", "marker_offset", "ended_at", "cause"})
_ACKNOWLEDGED: Final = frozenset({"at", "by", "reason"})
_MARKER: Final = frozenset({"marker", "topic", "partition", "producer_id", "producer_epoch"})
_RESOLUTION: Final = _MARKER | {"executed", "coordinator_epoch", "reason", "steps", "command"}
"""The constants from _LIST to this one hold names of fields. An answer that lacks these fields is from another server,
not from txnscope."""


Query = Mapping[str, str | Sequence[str] | None]


class NotReached(CommandFailed):
    """The failure of a request that txnscope did not answer. `was_refused`: the connection was refused, so the service
    did not get the request.
    """

    def __init__(self, text: str, *, was_refused: bool = False) -> None:
        super().__init__(text, UNREACHABLE)
        self.was_refused = was_refused


class Service:
    """The service at `url`, and one cluster of it. Each request raises CommandFailed: code 2 if the service refuses the
    request, or if a key file or certificate cannot be used; 3 if the service does not answer, answers with a status
    from 500 on, or is not txnscope."""

    def __init__(self, settings: Settings) -> None:
        self._settings, self._url, self._cluster = settings, settings.url, settings.cluster
        self._key = None if settings.key_file is None else _read_key("--key-file", settings.key_file)
        self._answered_at = datetime.now(UTC)

    def items(self, path: str, limit: int, query: Query | None = None) -> dict[str, Any]:
        """Returns up to `limit` items of one of the cluster's lists, read page by page: `{"items", "next_cursor",
        "as_of"}`. `next_cursor` and `as_of` are those of the last page. Parameters that are None are not sent.

        The lists `findings` and `hanging` also have `truncated`: the number of conditions and events of the requested
        kinds that were seen, but have no finding of their own.
        """
        fields = _LIST | {"truncated"} if path in ("findings", "hanging") else _LIST
        items: list[Any] = []
        cursor: str | None = None
        while True:
            wanted = str(min(limit - len(items), _PAGE))
            answer = self._of_cluster(path, {**(query or {}), "limit": wanted, "cursor": cursor})
            page = self._list(answer, _ITEMS[path], fields)
            items += page["items"]
            cursor = page["next_cursor"]
            if cursor is None or len(items) >= limit:
                return {**page, "items": items}

    def notifications(self) -> dict[str, Any]:
        """Returns the receivers of notifications, as a page."""
        return self._list(self._ask(f"/notifications?limit={_PAGE}"), _RECEIVER)

    def transaction(self, transactional_id: str) -> dict[str, Any]:
        """Returns one id in full."""
        return self._known(self._of_cluster("transaction", {"id": transactional_id}), _TRANSACTION)

    def check_producer_id(self, producer_id: str) -> None:
        """Raises CommandFailed if no id has or had the producer id."""
        self._list(self._of_cluster(f"producers/{_quoted(producer_id)}", {}), {"transactional_id"})

    def summary(self) -> dict[str, Any]:
        """Returns the cluster as REST describes it: counts, sources, and what could not be judged."""
        return self._known(self._ask(self._path()), _CLUSTER)

    def since(self, moment: str) -> timedelta:
        """Returns the time that passed from `moment`, a time in an answer of the service, until the last answer. Uses
        the clock of the service's machine (the header Date); without that header, the clock of this machine."""
        return self._answered_at - datetime.fromisoformat(moment)

    def explain(self, topic: str, partition: int, offset: int, to: int) -> dict[str, Any]:
        """Returns the explanation of the offsets [offset, to) of a partition: `{"spans", "truncated_at",
        "only_aborted", "as_of"}`."""
        path = f"partitions/{_quoted(topic)}/{partition}/offsets/{offset}"
        answer = self._known(self._of_cluster(path, {"to": str(to)}), _EXPLANATION)
        if not isinstance(answer["spans"], list):
            raise self._foreign()
        for span in answer["spans"]:
            self._known(span, _SPAN)
        return answer

    def read(self, path: str) -> dict[str, Any]:
        """Returns the JSON object at `path`, a path below `/api/v1` that may have a query."""
        return self._known(self._ask(path), frozenset())

    def resolve(self, finding: str, *, dry_run: bool) -> dict[str, Any]:
        """Returns the marker that was written, or would be written (`dry_run`). Uses the key of --operator-key-file
        (the older flag) if that is given, else the key of --key-file. Raises CommandFailed if there is no key, or if
        the request fails."""
        file = self._settings.operator_key_file
        key = self._key if file is None else _read_key("--operator-key-file", file)
        if key is None:
            raise CommandFailed("--key-file is missing: give a file that contains only an operator's key")
        path = self._path("findings", finding, "resolve")
        try:
            return self._known(self._ask(path, {"dry_run": dry_run}, key), _RESOLUTION)
        except NotReached as error:
            if dry_run or error.was_refused:
                raise
            raise CommandFailed(
                f"{error}; it is not known whether the marker was written: if it was, the finding resolves within"
                " seconds, and the audit lists the marker",
                UNREACHABLE,
            ) from None

    def mute(self, wish: Mapping[str, Any]) -> dict[str, Any]:
        """Sets a mute and returns it."""
        return self._known(self._ask(self._path("mutes"), wish), _MUTE)

    def end_mute(self, number: int) -> None:
        self._ask(f"{self._path('mutes')}?id={number}", method="DELETE")

    def acknowledge(self, finding: str, reason: str) -> dict[str, Any]:
        """Acknowledges a finding, and returns the acknowledgement."""
        answer = self._ask(self._path("findings", finding, "acknowledge"), {"reason": reason})
        return self._known(answer, _ACKNOWLEDGED)

    def _path(self, *segments: str) -> str:
        """Returns the path below the cluster of --cluster. Without --cluster, the path is below the only cluster of the
        service. If the service has no cluster or several, raises CommandFailed."""
        if self._cluster is None:
            page = self._list(self._ask(f"/clusters?limit={_PAGE}"), {"cluster"})
            names = [str(one["cluster"]) for one in page["items"]]
            if not names:
                raise CommandFailed(f"{self._url} has no cluster yet", UNREACHABLE)
            if len(names) > 1:
                raise CommandFailed(f"--cluster is missing: choose one of {', '.join(sorted(names))}")
            self._cluster = names[0]
        return "/".join(["/clusters", _quoted(self._cluster), *map(_quoted, segments)])

    def _of_cluster(self, path: str, query: Query) -> Any:
        given = {name: value for name, value in query.items() if value is not None}
        return self._ask(f"{self._path()}/{path}?{urlencode(given, doseq=True, errors='surrogateescape')}")

    def _list(self, answer: Any, names: Set[str], fields: Set[str] = _LIST) -> dict[str, Any]:
        """Returns the answer if it has all of `fields`, and each of its items has all of `names`. Else raises
        CommandFailed."""
        page = self._known(answer, fields)
        if not isinstance(page["items"], list):
            raise self._foreign()
        for one in page["items"]:
            self._known(one, names)
        return page

    def _known(self, answer: Any, names: Set[str]) -> dict[str, Any]:
        """Returns the answer if it has all the fields `names`, else raises CommandFailed: many servers answer any path
        with some JSON."""
        if not isinstance(answer, dict) or not names <= answer.keys():
            raise self._foreign()
        return answer

    def _foreign(self) -> CommandFailed:
        return NotReached(f"{self._url} (--url) answers, but is not txnscope")

    def _ask(
        self, path: str, body: Mapping[str, Any] | None = None, key: str | None = None, method: str | None = None
    ) -> Any:
        """Sends a request and returns the JSON of the answer; None for 204 (no content). `method`: if None, POST
        with a body, GET without one. `key`: sent instead of the key of the settings."""
        headers = {"Accept": "application/json"}
        if body is not None:
            headers |= {"Content-Type": "application/json"}
        if shown := key or self._key:
            headers |= {"Authorization": f"Bearer {shown}"}
        is_read = body is None and method is None
        try:
            # never through a proxy of the environment: the service is on this machine or beside it
            answer = send(
                method or ("GET" if body is None else "POST"),
                f"{self._url}/api/v1{path}",
                headers,
                None if body is None else json.dumps(body).encode(),
                timeout_s=_TIMEOUT_S if is_read else _WRITE_TIMEOUT_S,
                tls=lambda: self._tls,
                most_bytes=None,
                most_redirects=_MOST_REDIRECTS,
            )
        except NoAnswer as error:
            raise NotReached(f"no answer from {self._url} (--url): {error}", was_refused=error.was_refused) from None
        if not 200 <= answer.status < 300:
            raise self._refusal(answer)
        self._answered_at = _date(answer.headers.get("Date"))
        try:
            return None if answer.status == HTTPStatus.NO_CONTENT else json.loads(answer.body)
        except ValueError:
            raise self._foreign() from None

    @cached_property
    def _tls(self) -> ssl.SSLContext:
        """The context for https. Raises CommandFailed for files that cannot be used."""
        ca, client_cert = self._settings.ca, self._settings.client_cert
        try:
            context = ssl.create_default_context(cafile=ca)
        except OSError as error:  # also ssl.SSLError
            raise CommandFailed(f"--ca {ca}: {_why(error)}") from None
        if client_cert is not None:
            try:
                context.load_cert_chain(client_cert)
            except OSError as error:
                raise CommandFailed(f"--client-cert {client_cert}: {_why(error)}") from None
        return context

    def _refusal(self, answer: HttpAnswer) -> CommandFailed:
        """Returns the failure for an answer with an error status, in the service's own words (RFC 9457)."""
        try:
            problem = json.loads(answer.body)
            text = str(problem.get("detail") or problem["title"])
        except (ValueError, AttributeError, KeyError):
            return NotReached(f"{self._url} (--url) answers {answer.status}, and is not txnscope")
        return CommandFailed(" ".join(text.split()), USAGE if answer.status < 500 else UNREACHABLE)


def _date(header: str | None) -> datetime:
    """Returns the time in the header. If the header is missing or invalid, returns the present time by this machine's
    clock."""
    try:
        return parsedate_to_datetime(header or "").astimezone(UTC)
    except ValueError:
        return datetime.now(UTC)


def _quoted(segment: str) -> str:
    return quote(segment, safe="", errors="surrogateescape")
