"""What people do or are refused, in the words of the audit."""

from __future__ import annotations

from typing import Final

RESOLVE: Final = "resolve"
MUTE: Final = "mute"
ACKNOWLEDGE: Final = "acknowledge"
KEY: Final = "key"
AUTHENTICATE: Final = "authenticate"
AUTHORIZE: Final = "authorize"
ACTIONS: Final = (RESOLVE, MUTE, ACKNOWLEDGE, KEY, AUTHENTICATE, AUTHORIZE)
