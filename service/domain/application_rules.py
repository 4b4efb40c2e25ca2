"""Finds the application of a transactional.id. A rule of `[[applications]]` names the application; otherwise its name
is read from the id, if a known framework has put it there. Without either, an id has no application, because a wrong
name would send an incident to the wrong team.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Final, NamedTuple

from service.domain.applications import PER_TASK, Application, Framework

LONGEST_NAME: Final = 200
"""Maximum number of characters of an application's name: the name is a label of metrics and a part of addresses."""

LONGEST_MATCHED: Final = 1_000
"""Maximum number of characters of an id that patterns are matched against, because the time of a match may grow fast
with the length. Longer ids match no pattern."""

GROUP: Final = "name"
"""The group of a pattern that holds the application's name: `(?P<name>…)`."""


class ApplicationRule(NamedTuple):
    """A rule for ids whose display form begins with `prefix`, or is matched as a whole by `pattern`. `name`: the name
    of their application; None: the pattern's group GROUP matches the name. `kind`: their framework; None: the
    recognised framework counts."""

    prefix: str | None = None
    pattern: re.Pattern[str] | None = None
    name: str | None = None
    kind: Framework | None = None

    def name_of(self, shown: str) -> str | None:
        """Returns the application of the id; None if the rule does not fit, or the name in the id is unusable."""
        if self.prefix is not None:
            return self.name if shown.startswith(self.prefix) else None
        if self.pattern is None or len(shown) > LONGEST_MATCHED:
            return None
        found = self.pattern.fullmatch(shown)
        if found is None:
            return None
        return self.name if self.name is not None else usable(found[GROUP])


class Assigned(NamedTuple):
    """The application of an id, and the framework that made the id. `name` None: no application is known."""

    name: str | None = None
    framework: Framework = Framework.UNKNOWN


UNASSIGNED: Final = Assigned()


class ApplicationRules(NamedTuple):
    """The rules of the settings, in the order of the file. The first rule that names an application for an id
    counts."""

    rules: tuple[ApplicationRule, ...] = ()

    def matching(self, shown: str) -> ApplicationRule | None:
        """Returns the first rule that names an application for the id; None if no rule does."""
        return next((rule for rule in self.rules if rule.name_of(shown) is not None), None)

    def kind_of(self, shown: str) -> Framework | None:
        """Returns the framework that a rule names for the id; None if no rule does."""
        rule = self.matching(shown)
        return None if rule is None else rule.kind

    def assign(self, shown: str, recognised: Application) -> Assigned:
        """Returns the application of the id. A rule takes precedence over the recognised framework and application. If
        neither shows a usable name, returns UNASSIGNED, even if the framework is recognised."""
        rule = self.matching(shown)
        if rule is None:
            name = recognised_name(shown, recognised)
            return UNASSIGNED if name is None else Assigned(name, recognised.kind)
        return Assigned(rule.name_of(shown), recognised.kind if rule.kind is None else rule.kind)

    def corrected(self, shown: str, recognised: Application) -> Application:
        """Returns `recognised`, the maker of the id `shown`, unless a rule names another framework. In that case,
        returns only the rule's framework and name: the recognised task and naming strategy would not fit the rule's
        framework."""
        rule = self.matching(shown)
        if rule is None or rule.kind in (None, recognised.kind):
            return recognised
        return Application(rule.kind or Framework.UNKNOWN, rule.name_of(shown))


NO_RULES: Final = ApplicationRules()


def recognised_name(shown: str, application: Application) -> str | None:
    """Returns the name of the application that made the id; None if it is not known. The name for a source task of
    Kafka Connect has both the group of workers and the connector, because another group may have a connector of the
    same name."""
    if (
        application.kind == Framework.KAFKA_CONNECT
        and application.strategy == PER_TASK
        and application.task is not None
    ):
        return usable(shown.removesuffix(f"-{application.task}"))
    return usable(application.name)


def usable(name: str | None) -> str | None:
    """Returns the name; None if there is none, or if it is empty, too long, or `.` or `..`, with which no address can
    end."""
    return None if name in (None, "", ".", "..") or len(name) > LONGEST_NAME else name


def mistake_in(prefix: str | None, pattern: str | None, name: str | None) -> str | None:
    """Returns the reason why these texts cannot make a rule; None if they can. `prefix`, `pattern` and `name`: as in
    ApplicationRule."""
    if (prefix is None) == (pattern is None):
        return "needs either prefix or pattern"
    has_group = False
    if pattern is not None:
        try:
            has_group = GROUP in re.compile(pattern).groupindex
        except (re.error, OverflowError, RecursionError) as error:
            return f"pattern {pattern!r} is no regular expression: {error}"
    if name is None:
        return None if has_group else f"needs name, or a pattern with a group (?P<{GROUP}>…)"
    if has_group:
        return f"has both name and a group (?P<{GROUP}>…): leave one out"
    if usable(name) is None or name != name.strip() or not name.isprintable():
        return (
            f"name {name!r} is no name: give 1 to {LONGEST_NAME} printable characters, without spaces at either"
            " end, and not . or .."
        )
    return None


def kinds_in(frameworks: Iterable[str]) -> tuple[Framework, ...]:
    """Returns the frameworks among these words. Ignores unknown words, which may be of a later version."""
    given = set(frameworks)
    return tuple(one for one in Framework if one in given and one != Framework.UNKNOWN)
