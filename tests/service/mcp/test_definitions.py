"""Tests of the definitions of tools and resources, which a language model reads before its first question. Also tests
wrong calls of a tool."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from mcp import Client
from mcp.shared.exceptions import MCPError

from service.domain.findings.catalogue import CATALOGUE
from service.mcp.findings import uri_of
from service.mcp.server import runbooks
from tests.helpers.partitions import WithPartitions
from tests.helpers.paths import ROOT
from tests.helpers.stores import Id
from tests.service.mcp.talking import Talk, answered, ask, served, talk_to

BYTES_A_TOKEN = 3
"""Assumed bytes of one token. In English text and in JSON, a token has more bytes, so the number of tokens is not
underestimated."""


@pytest.fixture
def talk(cluster: WithPartitions) -> Any:
    cluster.read([Id(b"pay")])
    with served(cluster.url) as url:
        yield talk_to(url, "http")


def test_all_definitions_take_few_tokens(talk: Talk) -> None:
    async def read(client: Client) -> tuple[str, str]:
        tools = (await client.list_tools()).tools
        resources = (await client.list_resources()).resources
        texts = [tool.model_dump(by_alias=True, exclude_none=True) for tool in tools]
        listed = [resource.model_dump(by_alias=True, exclude_none=True) for resource in resources]
        return json.dumps([client.instructions, texts]), json.dumps(listed)

    definitions, resources = talk(read)
    assert len(definitions) / BYTES_A_TOKEN < 1_200
    assert len(definitions + resources) / BYTES_A_TOKEN < 4_000


def test_every_tool_reads_only_and_says_which_arguments_it_needs(talk: Talk) -> None:
    async def read(client: Client) -> Any:
        return (await client.list_tools()).tools

    tools = talk(read)
    assert {one.name: one.input_schema["required"] for one in tools} == {
        "what_is_wrong": [],
        "why_is_group_blocked": ["cluster", "group"],
        "explain_offset": ["cluster", "topic", "partition", "offset"],
        "history_of": ["cluster", "transactional_id"],
    }
    for tool in tools:
        assert tool.annotations.read_only_hint, tool.name
        assert tool.input_schema["additionalProperties"] is False, tool.name


def test_runbooks_are_resources_and_findings_name_those_that_exist(talk: Talk) -> None:
    async def read(client: Client) -> dict[str, str]:
        listed = (await client.list_resources()).resources
        texts = {}
        for resource in listed:
            (content,) = (await client.read_resource(resource.uri)).contents
            assert (content.uri, content.mime_type) == (resource.uri, "text/markdown")
            texts[resource.uri] = content.text  # type: ignore[union-attr]
        return texts

    texts = talk(read)
    assert texts == {uri_of(file.stem): file.read_text() for file in runbook_files()}
    assert {uri_of(entry.alert) for entry in CATALOGUE.values() if entry.alert is not None} <= set(texts)
    assert all(runbook.text.startswith(f"# {runbook.name}\n") for runbook in runbooks())


def runbook_files() -> list[Path]:
    return [file for file in (ROOT / "docs" / "runbooks").glob("*.md") if file.stem != "README"]


def test_unknown_tools_and_resources_are_refused_by_name(talk: Talk) -> None:
    async def wrong(client: Client) -> list[str]:
        said = []
        for call in (client.call_tool("resolve", {}), client.read_resource("file:///etc/passwd")):
            with pytest.raises(MCPError) as refused:
                await call
            said.append(refused.value.message)
        return said

    tool, resource = talk(wrong)
    assert tool == "there is no tool 'resolve'"
    assert resource == "there is no resource 'file:///etc/passwd'"


@pytest.mark.parametrize(
    ("tool", "arguments", "says"),
    [
        ("history_of", {"cluster": "orders"}, "transactional_id is missing"),
        (
            "history_of",
            {"cluster": "orders", "transactional_id": 7},
            "transactional_id has to be a text that is not empty",
        ),
        ("history_of", {"cluster": "", "transactional_id": "a"}, "cluster has to be a text that is not empty"),
        (
            "history_of",
            {"cluster": "orders", "transactional_id": "\N{CLOUD}" * 6_000},
            "transactional_id is too long: 54,000 bytes in an address",
        ),
        ("what_is_wrong", {"clusters": "orders"}, "'clusters' is not an argument: the arguments are cluster"),
        (
            "explain_offset",
            {"cluster": "orders", "topic": "t", "partition": True, "offset": 1},
            "partition has to be a whole number from 0 to 2147483647",
        ),
        (
            "explain_offset",
            {"cluster": "orders", "topic": "t", "partition": 0, "offset": -1},
            "offset has to be a whole number from 0 to 9223372036854775806",
        ),
        ("what_is_wrong", {"cluster": "nowhere"}, "there is no cluster 'nowhere'; the store knows: 'orders'"),
        ("history_of", {"cluster": "orders", "transactional_id": "x"}, "cluster 'orders' has no transactional id 'x'"),
        (
            "explain_offset",
            {"cluster": "orders", "topic": "t", "partition": 0, "offset": 1},
            "this request needs Kafka, but no brokers are configured; start the service with --bootstrap-servers",
        ),
    ],
)
def test_a_wrong_question_is_answered_by_what_is_wrong_with_it(
    talk: Talk, tool: str, arguments: dict[str, Any], says: str
) -> None:
    assert answered(talk, tool, **arguments) == {"error": says}


NO_CLUSTERS = (
    "orders/findings",
    "../clusters/orders",
    "..",
    "orders?limit=1",
    "orders#x",
    "%2e%2e",
    "orders%2ffindings",
)


def test_a_path_in_a_name_leads_nowhere_else(talk: Talk) -> None:
    async def wrong(client: Client) -> list[str]:
        return [(await ask(client, "what_is_wrong", cluster=name))["error"] for name in NO_CLUSTERS]

    for name, said in zip(NO_CLUSTERS, talk(wrong), strict=True):
        has_path = "/" in name or name == ".."
        assert said.startswith("no cluster or topic has the name" if has_path else "there is no cluster"), said
