"""Reads client.properties as java.util.Properties does, and the values that the file takes from elsewhere:
`${file:/run/secrets/kafka.properties:password}` (KIP-297).

Providers (KIP-297): FileConfigProvider, DirectoryConfigProvider (KIP-421) and EnvVarConfigProvider (KIP-887) of Kafka's
clients; the syntax is that of ConfigTransformer.java. If the key of a variable is missing, Java sends the variable
itself as the password. This module gives every variable of a declared provider a value, or refuses the file."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path, PurePath
from typing import Final, NamedTuple

import javaproperties


def read(path: Path) -> dict[str, str]:
    """Returns the keys and values of a file; the last value of a key counts. Raises ValueError with a text that names
    the file.

    The file is UTF-8, with or without a byte order mark, or ISO 8859-1, the only encoding that Java reads.
    """
    try:
        raw = path.read_bytes()
    except OSError as e:
        raise ValueError(f"{path}: {e.strerror}") from e
    if b"\0" in raw:
        raise ValueError(f"{path}: not a text file")
    try:
        return javaproperties.loads(_decoded(raw))
    except javaproperties.InvalidUEscapeError as e:
        raise ValueError(f"{path}: {e}") from e


def _decoded(raw: bytes) -> str:
    try:
        return raw.decode("utf-8-sig")
    except UnicodeDecodeError:
        return raw.decode("latin-1")


PROVIDERS: Final = "config.providers"
_PACKAGE: Final = "org.apache.kafka.common.config.provider"
_VARIABLE: Final = re.compile(r"\$\{([^}]*?):(?:([^}]*?):)?([^}]*?)\}")

_SHORTEST_SECRET: Final = 4

_Lookup = Callable[[str, str], str]
"""Returns a config provider's value for a path and a key. Raises ValueError with the reason if the provider has
none."""


class Resolved(NamedTuple):
    """The properties with each variable replaced by its value, and without the providers. `files`: the files from which
    values were read. `values`: pairs of a variable and its value."""

    properties: dict[str, str]
    files: tuple[Path, ...]
    values: tuple[tuple[str, str], ...]

    def __repr__(self) -> str:
        return f"Resolved({len(self.properties)} properties)"

    def masked(self, text: str) -> str:
        """Returns an error's text with values replaced by their variables. The text may show the value of any key, and
        a password may be under a wrong key. Values of less than _SHORTEST_SECRET characters are kept."""
        for variable, value in self.values:
            if len(value.strip()) >= _SHORTEST_SECRET:
                text = text.replace(value.strip(), variable)
        return text


def is_of_provider(key: str) -> bool:
    return key == PROVIDERS or key.startswith(f"{PROVIDERS}.")


def without_variables(properties: Mapping[str, str]) -> dict[str, str]:
    """Returns the properties without the variables of declared providers: an empty text replaces each of them."""
    names = _names(properties)
    return {
        key: _VARIABLE.sub(lambda found: "" if found[1] in names else found[0], value)
        for key, value in properties.items()
    }


def resolve(properties: Mapping[str, str], environment: Mapping[str, str] = os.environ) -> Resolved:
    """Reads the value of every variable, anew at each call. A `${…}` that names no declared provider is plain text.

    Raises ValueError. Its text names the property, and what is wrong with its provider: the class, the file, or the key
    in the file. The text contains no value.
    """
    files: list[Path] = []
    found: list[tuple[str, str]] = []
    lookups = {name: _lookup(name, properties, environment, files) for name in _names(properties)}
    rest = {key: value for key, value in properties.items() if not is_of_provider(key)}
    values = {key: "".join(_pieces(key, value, lookups, found)) for key, value in rest.items()}
    return Resolved(values, tuple(dict.fromkeys(files)), tuple(dict.fromkeys(found)))


def _names(properties: Mapping[str, str]) -> list[str]:
    return [name for part in properties.get(PROVIDERS, "").split(",") if (name := part.strip())]


def _pieces(key: str, value: str, lookups: Mapping[str, _Lookup], found: list[tuple[str, str]]) -> Iterator[str]:
    """Yields the parts of a value, each variable replaced by its value, and adds (variable, value) to `found`.
    Variables inside a provider's value are not replaced. Raises ValueError if a variable has no value."""
    at = 0
    for variable in _VARIABLE.finditer(value):
        if variable[1] in lookups:
            yield value[at : variable.start()]
            try:
                piece = lookups[variable[1]](variable[2] or "", variable[3])
            except ValueError as e:
                raise ValueError(f"{key}: {variable[0]}: {e}") from e
            found.append((variable[0], piece))
            yield piece
            at = variable.end()
    yield value[at:]


def _lookup(name: str, properties: Mapping[str, str], environment: Mapping[str, str], files: list[Path]) -> _Lookup:
    of_class = f"{PROVIDERS}.{name}.class"
    given = properties.get(of_class, "").strip()
    if not given:
        raise ValueError(f"{PROVIDERS} names {name!r}, but {of_class} is missing")
    parameters = f"{PROVIDERS}.{name}.param."
    if given == f"{_PACKAGE}.EnvVarConfigProvider":
        return _from_environment(f"{parameters}allowlist.pattern", properties, environment)
    reads = {f"{_PACKAGE}.FileConfigProvider": _of_file, f"{_PACKAGE}.DirectoryConfigProvider": _of_directory}
    if given not in reads:
        raise ValueError(
            f"{of_class}={given} is not supported: it can be FileConfigProvider, DirectoryConfigProvider or"
            f" EnvVarConfigProvider of {_PACKAGE}"
        )
    return _from_files(reads[given], f"{parameters}allowed.paths", properties, files)


def _from_environment(of_pattern: str, properties: Mapping[str, str], environment: Mapping[str, str]) -> _Lookup:
    try:
        allowed = re.compile(properties.get(of_pattern, ".*"))
    except re.error as e:
        raise ValueError(f"{of_pattern}: not a pattern: {e}") from e

    def value(path: str, key: str) -> str:
        if path:
            raise ValueError("EnvVarConfigProvider takes no path")
        if not allowed.fullmatch(key):
            raise ValueError(f"{of_pattern} does not allow it")
        if key not in environment:
            raise ValueError("this environment variable is not set")
        return environment[key]

    return value


def _from_files(
    read: Callable[[Path, str], tuple[Path, str]], of_paths: str, properties: Mapping[str, str], files: list[Path]
) -> _Lookup:
    given = properties.get(of_paths, "")
    allowed = [PurePath(os.path.normpath(part)) for part in given.split(",")] if given else []
    for one in allowed:
        if not one.is_absolute() or not Path(one).exists():
            raise ValueError(f"{of_paths}: {one} {'does not exist' if one.is_absolute() else 'is not absolute'}")

    def value(path: str, key: str) -> str:
        if not path:
            raise ValueError("no path in it")
        place = os.path.normpath(path) if allowed else path
        if allowed and not any(PurePath(place).is_relative_to(path) for path in allowed):
            raise ValueError(f"{of_paths} does not allow it")
        file, found = read(Path(place), key)
        files.append(file)
        return found

    return value


def _of_file(path: Path, key: str) -> tuple[Path, str]:
    values = read(path)
    if key not in values:
        raise ValueError(f"no key {key} in {path}")
    return path, values[key]


def _of_directory(path: Path, key: str) -> tuple[Path, str]:
    """Returns the path of the file `key` in the directory, and the file's whole text. Raises ValueError if there is no
    such file, if the text is not UTF-8, or if `key` is a path."""
    file = path / key
    try:
        if key in (".", "..") or "/" in key or not file.is_file():
            raise ValueError(f"no file {key} in {path}")
        return file, file.read_text("utf-8")
    except (OSError, UnicodeDecodeError) as e:
        raise ValueError(f"{file}: {getattr(e, 'strerror', None) or 'not UTF-8'}") from e
