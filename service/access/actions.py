"""What people do or are refused, in the words of the audit."""

from __future__ import annotations

from typing import Final

RESOLVE: Final = "resolve"
MUTE: Final = "mute"
KEY: Final = "key"
AUTHENTICATE: Final = "authenticate"
AUTHORIZE: Final = "authorize"
ACTIONS: Final = (RESOLVE, MUTE, KEY, AUTHENTICATE, AUTHORIZE)
