"""The names of REST, from the OpenAPI document: operations, parameters, answers, and the fields of answers and requests
with their types. Also the addresses of pages."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any

from fastapi.routing import APIRoute

from service import web
from tests.helpers import openapi_document

_JSON = "application/json"
Schema = Mapping[str, Any]


def sections() -> dict[str, list[str]]:
    described = json.loads(openapi_document.document())
    operations = {
        f"{method.upper()} {path}": operation
        for path, methods in described["paths"].items()
        for method, operation in methods.items()
    }
    schemas = described["components"]["schemas"]
    return {
        "REST operations": list(operations),
        "REST parameters": [name for title, one in operations.items() for name in _parameters(title, one)],
        "REST answers": [name for title, one in operations.items() for name in _answers(title, one)],
        "REST fields": [name for title, schema in schemas.items() for name in _fields(title, schema)],
        "pages": list(_pages()),
        "REST requests": [name for title, one in operations.items() for name in _body(title, one, schemas)],
    }


def _pages() -> Iterator[str]:
    """Yields the addresses of pages. Messages and bookmarks contain them."""
    for route in (route for room in web.ROOMS for route in room.router.routes):
        if isinstance(route, APIRoute) and "GET" in (route.methods or ()):
            yield route.path


def _parameters(title: str, operation: Schema) -> Iterator[str]:
    for one in operation.get("parameters", ()):
        yield f"{title} {one['in']} {one['name']}"
        yield from (f"{title} {one['in']} {one['name']} = {word}" for word in _words(one["schema"]))
        if one["required"]:
            yield f"{title} needs {one['name']}"


def _answers(title: str, operation: Schema) -> Iterator[str]:
    for status, answer in operation["responses"].items():
        for kind, content in answer.get("content", {"": {}}).items():
            told = _type(content["schema"]) if "schema" in content else ""
            yield " ".join(word for word in (title, status, kind, told) if word)


def _body(title: str, operation: Schema, schemas: Schema) -> Iterator[str]:
    """Yields each field of a request's body, with its type. Then yields each required field once more, as `… needs
    FIELD`."""
    schema = operation.get("requestBody", {}).get("content", {}).get(_JSON, {}).get("schema")
    if schema is not None:
        body = schemas[_type(schema)] if "$ref" in schema else schema
        for field, described in body.get("properties", {}).items():
            yield f"{title} body {field} {_type(described)}"
        yield from (f"{title} needs {field}" for field in body.get("required", ()))


def _fields(title: str, schema: Schema) -> Iterator[str]:
    """Yields a line for each field, with its type, and for each value of an enumeration. If a field may be absent, its
    line says so."""
    yield from (f"{title} = {word}" for word in _words(schema))
    always = schema.get("required", ())
    for field, described in schema.get("properties", {}).items():
        yield f"{title}.{field} {_type(described)}" + ("" if field in always else ", may be absent")
        yield from (f"{title}.{field} = {word}" for word in _words(described))


def _type(schema: Schema) -> str:
    if "$ref" in schema:
        return str(schema["$ref"]).rpartition("/")[2]
    if "anyOf" in schema:
        return " or ".join(_type(one) for one in schema["anyOf"])
    if schema.get("type") == "array":
        return f"list of {_type(schema['items'])}"
    if "additionalProperties" in schema and "properties" not in schema:
        return f"map of {_type(schema['additionalProperties'])}"
    return " ".join(word for word in (schema.get("type", "anything"), schema.get("format", "")) if word)


def _words(schema: Schema) -> Iterator[str]:
    """Yields the values of enumerations in the schema, including those in its alternatives and list items."""
    yield from map(str, schema.get("enum", ()))
    if "const" in schema:
        yield str(schema["const"])
    for inner in (*schema.get("anyOf", ()), *([schema["items"]] if "items" in schema else ())):
        yield from _words(inner)
