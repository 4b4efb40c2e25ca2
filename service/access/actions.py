"""The actions and outcomes that the audit records."""

from __future__ import annotations

from enum import StrEnum


class Action(StrEnum):
    """A requested action, as the audit records it."""

    RESOLVE = "resolve"
    MUTE = "mute"
    ACKNOWLEDGE = "acknowledge"
    KEY = "key"
    AUTHENTICATE = "authenticate"
    AUTHORIZE = "authorize"


class Outcome(StrEnum):
    """The outcome of an action, as the audit records it."""

    BEGUN = "begun"
    """Recorded before a marker is sent. If no outcome follows, the service ended or lost its store before it could
    record one."""
    WRITTEN = "written"
    REFUSED = "refused"
    """Not done: txnscope or a broker refused the action, or a request failed. If the action was to write a marker, the
    marker is not in the log."""
    UNKNOWN = "unknown"
    """No answer came: the marker may be in the log, or get there later."""
    DRY_RUN = "dry_run"
    SET = "set"
    ENDED = "ended"
    CREATED = "created"
    REVOKED = "revoked"
