"""A receiver for people: Slack, Teams, PagerDuty, Opsgenie, mail and whatever else Apprise knows.

At most one message is sent in `gathers_s` seconds. A message has a line for each finding (MOST_LINES at most), with the
finding's last event. So an outage of 500 ids is one message.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from typing import Final

from service.notifications.notification import Notification, Receiver, Undelivered

GATHER_S: Final = 20.0
MOST_LINES: Final = 10

_MENTIONS: Final = str.maketrans("<>@", "‹›＠")  # noqa: RUF001 - similar on purpose
"""Maps the special characters of the mentions <!channel>, <@user> and @everyone to similar characters. Slack, Discord
and other chats notify people of a mention, even if it is a part of a transactional.id. The linked page of the finding
shows the real characters."""


class People(Receiver):
    """Sends messages to the addresses of Apprise that `urls` returns; `urls` is called anew for each message.
    `gathers_s`: the shortest time between two messages."""

    def __init__(self, urls: Callable[[], Sequence[str]], gathers_s: float = GATHER_S) -> None:
        self._urls, self.gathers_s = urls, gathers_s

    def send(self, notifications: Sequence[Notification]) -> None:
        from apprise import Apprise, AppriseAsset  # 0.3 s, and only those who have such a receiver need it

        logging.getLogger("apprise").setLevel(logging.CRITICAL)  # Apprise's lines could contain tokens
        apprise = Apprise(asset=AppriseAsset(app_id="txnscope", http_redirects=False, secure_logging=True))
        if not all(apprise.add(url) for url in self._urls()):
            raise Undelivered("Apprise cannot use one of the addresses: give URLs like slack://TOKEN_A/TOKEN_B/TOKEN_C")
        newest = list({notification.finding.id: notification for notification in notifications}.values())
        title, body, kind = message(newest)
        if not apprise.notify(body=body, title=title, notify_type=kind, body_format="text"):
            raise Undelivered("Apprise could not send the message")


def message(newest: Sequence[Notification]) -> tuple[str, str, str]:
    """Returns title, text and Apprise's type of a message about findings, each with its newest event."""
    open_ones = [one for one in newest if one.finding.is_open]
    worst = min((one.finding.severity for one in open_ones), key=lambda severity: severity.rank, default=None)
    kind = "success" if worst is None else {"critical": "failure", "warning": "warning"}.get(worst, "info")
    if len(newest) == 1:
        notification = newest[0]
        state = str(notification.finding.severity) if notification.finding.is_open else "resolved"
        return (
            f"{_quiet(notification.cluster)}: {state}: {notification.finding.kind}",
            f"{_text(notification)}\n{notification.link}",
            kind,
        )
    clusters = _quiet(", ".join(sorted({one.cluster for one in newest})))
    parts = [f"{len(open_ones)} open"] if open_ones else []
    if len(open_ones) < len(newest):
        parts.append(f"{len(newest) - len(open_ones)} resolved")
    ordered = sorted(newest, key=lambda one: (not one.finding.is_open, one.finding.severity.rank))
    lines = [f"- {_text(one)}\n  {one.link}" for one in ordered[:MOST_LINES]]
    if len(ordered) > MOST_LINES:
        lines.append(f"and {len(ordered) - MOST_LINES} more: {ordered[0].link.partition('/findings/')[0]}/findings")
    return f"{clusters}: {len(newest)} findings: {', '.join(parts)}", "\n".join(lines), kind


def _text(notification: Notification) -> str:
    finding = notification.finding
    if not finding.is_open:
        return f"resolved ({finding.life.resolution}): {_quiet(finding.summary)}"
    return f"{finding.severity}: {_quiet(finding.summary)}"


def _quiet(text: str) -> str:
    """Returns the text with each character by which chats mention people (such as @) replaced with a similar one."""
    return text.translate(_MENTIONS)
