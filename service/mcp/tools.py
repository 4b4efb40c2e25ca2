"""The tools: their definitions, which a model reads, and the check of their arguments. Tools only read; no tool changes
anything."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Final, NamedTuple
from urllib.parse import quote

from service.mcp.asking import Ask
from service.mcp.clusters import what_is_wrong
from service.mcp.data import Fields, shortened
from service.mcp.groups import why_is_group_blocked
from service.mcp.histories import history_of
from service.mcp.offsets import explain_offset

LONGEST_NAME: Final = 50_000
"""Maximum number of bytes of a percent-encoded name that a tool takes, because servers refuse longer addresses. An id
has at most 32,767 bytes before encoding."""
_LAST_PARTITION: Final = 2**31 - 1
_LAST_OFFSET: Final = 2**63 - 2

_CLUSTER: Final = {"type": "string"}
_NAME: Final = {"type": "string"}


class BadArguments(Exception):
    """The arguments do not fit the tool. The message is one line that names the argument."""


class Tool(NamedTuple):
    """A tool. `arguments`: a mapping from the name of an argument to its JSON schema; arguments in `optional` may be
    left out. `run`: the function that gets the arguments as keyword arguments; an argument that is left out is None."""

    name: str
    description: str
    arguments: Mapping[str, Mapping[str, Any]]
    run: Callable[..., Awaitable[Fields]]
    optional: frozenset[str] = frozenset()

    @property
    def input_schema(self) -> dict[str, Any]:
        return {
            "type": "object",
            "properties": {name: dict(schema) for name, schema in self.arguments.items()},
            "required": [name for name in self.arguments if name not in self.optional],
            "additionalProperties": False,
        }

    async def answer(self, ask: Ask, given: Mapping[str, Any] | None) -> Fields:
        """Runs the tool and returns its answer. Raises BadArguments or Refused."""
        return await self.run(ask, **self._checked(given or {}))

    def _checked(self, given: Mapping[str, Any]) -> dict[str, Any]:
        """Returns all arguments. Raises BadArguments for an argument that is unknown, missing or unusable."""
        unknown = sorted(given.keys() - self.arguments.keys())
        if unknown:
            raise BadArguments(
                f"{shortened(unknown[0])!r} is not an argument: the arguments are {', '.join(self.arguments)}"
            )
        found = {}
        for name, schema in self.arguments.items():
            value = given.get(name)
            if value is None:
                if name not in self.optional:
                    raise BadArguments(f"{name} is missing")
            elif schema["type"] == "integer":
                _check_number(name, value, schema["maximum"])
            else:
                _check_name(name, value)
            found[name] = value
        return found


def _check_number(name: str, value: Any, most: int) -> None:
    if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value <= most:
        raise BadArguments(f"{name} has to be a whole number from 0 to {most}")


def _check_name(name: str, value: Any) -> None:
    if not isinstance(value, str) or not value:
        raise BadArguments(f"{name} has to be a text that is not empty")
    try:
        encoded = quote(value, safe="")
    except UnicodeEncodeError:
        raise BadArguments(f"{name} has half of a surrogate pair") from None
    if len(encoded) > LONGEST_NAME:
        raise BadArguments(f"{name} is too long: {len(encoded):,} bytes in an address")


TOOLS: Final = (
    Tool(
        "what_is_wrong",
        "What is wrong with Kafka transactions now: verdict, hanging transactions, gravest open findings with advice,"
        " and what cannot be judged. Start here. Without `cluster`: all clusters. The verdict nothing_hangs says"
        " that nothing watched hangs or blocks now; findings may report other losses.",
        {"cluster": _CLUSTER},
        what_is_wrong,
        frozenset({"cluster"}),
    ),
    Tool(
        "why_is_group_blocked",
        "Why a consumer group does not advance although its lag may be 0: the partitions where it waits, the open"
        " transaction that holds each one up, and findings with advice.",
        {"cluster": _CLUSTER, "group": _NAME},
        why_is_group_blocked,
    ),
    Tool(
        "explain_offset",
        "Who wrote the record at an offset, how its transaction ended and why, and whether read_committed consumers"
        " get it. Reads the partition's log from Kafka.",
        {
            "cluster": _CLUSTER,
            "topic": _NAME,
            "partition": {"type": "integer", "minimum": 0, "maximum": _LAST_PARTITION},
            "offset": {"type": "integer", "minimum": 0, "maximum": _LAST_OFFSET},
        },
        explain_offset,
    ),
    Tool(
        "history_of",
        "State and past of a transactional.id: commits and aborts with their causes, the newest first, what it has"
        " open, and findings about it.",
        {"cluster": _CLUSTER, "transactional_id": _NAME},
        history_of,
    ),
)
