"""What people do or are refused, in the words of the audit."""

from __future__ import annotations

from enum import StrEnum


class Action(StrEnum):
    """What somebody asked for, as the audit records it."""

    RESOLVE = "resolve"
    MUTE = "mute"
    ACKNOWLEDGE = "acknowledge"
    KEY = "key"
    AUTHENTICATE = "authenticate"
    AUTHORIZE = "authorize"


class Outcome(StrEnum):
    """What became of it, as the audit records it."""

    BEGUN = "begun"
    """Recorded before a marker is sent. If no outcome follows, the service ended, or lost its store, meanwhile."""
    WRITTEN = "written"
    REFUSED = "refused"
    """Of a marker: it is not in the log."""
    UNKNOWN = "unknown"
    """No answer came: the marker may be in the log, or get there later."""
    DRY_RUN = "dry_run"
    SET = "set"
    ENDED = "ended"
    CREATED = "created"
    REVOKED = "revoked"
