"""Tests what each setting of the mixin changes, and that the error about a misspelt setting names the setting."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any, Final

import pytest
import yaml

from dashboards.frame import PREFIX, TAGS
from dashboards.mixin.build import FOLDER as MADE
from dashboards.rules.build import RULES
from tests.dashboards.boards import FILES, Json, load, panels
from tests.dashboards.check_queries import targets
from tests.dashboards.mixin.rendering import MIXIN, alerts_of, boards, evaluate, groups
from tests.dashboards.rules.files import ALERTS, FOLDER, NAMES, accepts, run

README: Final = MIXIN.with_name("README.md")
EXPORTED: Final = "exported_cluster"
QUICK_TESTS: Final = ("applications", "hanging", "partitions", "service", "transactions")
"""Names of the rule tests with short time series, which promtool runs fast. For all rule tests, it needs half a
minute."""


def write(folder: Path, groups: list[Json]) -> None:
    """Writes the rules as a file. Asserts that promtool accepts them."""
    (folder / RULES).write_text(yaml.safe_dump({"groups": groups}, sort_keys=False), "utf-8")
    accepts("promtool", "check", "rules", "--lint=all", "--lint-fatal", folder / RULES)


def queries(board: Json) -> list[str]:
    """Returns every query of the board: those of its panels, its variables, and its annotations, which mark alerts."""
    of_variables = [one["query"] for one in board["templating"]["list"] if one["type"] == "query"]
    marks = [one["expr"] for one in board["annotations"]["list"]]
    return [target["expr"] for _, target in targets(board)] + of_variables + marks


def test_matchers_reach_every_selector_of_the_dashboards() -> None:
    rendered = boards(matchers=['env="prod"'])
    for query in (query for board in rendered.values() for query in queries(board)):
        for matchers in re.findall(r"\b(?:kafka_txn|http)_\w+(\{[^}]*\})?|ALERTS(\{[^}]*\})", query):
            assert 'env="prod"' in "".join(matchers), query


def test_the_look_of_the_dashboards_can_be_changed() -> None:
    rendered = boards(
        dashboardNamePrefix="Messaging / ",
        dashboardTags=["messaging"],
        dashboardRefresh="5m",
        dashboardTimezone="utc",
        datasourceFilterRegex="/^prod/",
    )
    for file, board in rendered.items():
        assert board["title"] == "Messaging / " + load(file)["title"].removeprefix(PREFIX)
        assert (board["tags"], board["refresh"], board["timezone"]) == (["messaging"], "5m", "utc")
        (others,) = (link for link in board["links"] if link["type"] == "dashboards")
        assert others["tags"] == ["messaging"], "the list of the other dashboards must use the new tag"
        assert board["templating"]["list"][0]["regex"] == "/^prod/"


def test_links_to_other_dashboards_stay_while_they_share_a_tag() -> None:
    for board in boards(dashboardTags=[TAGS[-1], "team-a"]).values():
        (others,) = (link for link in board["links"] if link["type"] == "dashboards")
        assert others["tags"] == [TAGS[-1]]


def test_alerts_can_be_changed_and_left_out_by_name_and_severity(tmp_path: Path) -> None:
    rendered = groups(
        alerts={
            "KafkaTransactionOverdue": {"labels": {"team": "a"}, "annotations": {"summary": "Late"}},
            "KafkaTransactionOverdue/warning": {"severity": "info", "for": "7m", "keep_firing_for": "9m"},
            "KafkaTxnWatchdog": {"enabled": False},
        }
    )
    write(tmp_path, rendered)
    before = {json.dumps(alert, sort_keys=True) for alert in ALERTS}
    changed = [one for one in alerts_of(rendered) if json.dumps(one, sort_keys=True) not in before]
    assert [(one["alert"], one["labels"]["severity"], one["for"], one.get("keep_firing_for")) for one in changed] == [
        ("KafkaTransactionOverdue", "info", "7m", "9m"),
        ("KafkaTransactionOverdue", "critical", "5m", None),
    ]
    assert all(one["labels"]["team"] == "a" and one["annotations"]["summary"] == "Late" for one in changed)
    left = [one["alert"] for one in alerts_of(rendered)]
    assert (len(left), "KafkaTxnWatchdog" in left) == (len(before) - 1, False)


def test_a_group_is_left_out_with_all_its_alerts(tmp_path: Path) -> None:
    canary = [name for name in NAMES if name.startswith("KafkaTxnCanary")]
    rendered = groups(alerts={name: {"enabled": False} for name in canary})
    write(tmp_path, rendered)
    assert "txnscope-canary" not in {group["name"] for group in rendered}


@pytest.mark.parametrize(
    ("config", "error"),
    [
        ({"pageURL": "https://x"}, "_config.txnscope has no key pageURL"),
        ({"alerts": {"KafkaTxnWatchdogs": {}}}, "_config.txnscope.alerts: unknown KafkaTxnWatchdogs"),
        ({"alerts": {"KafkaTxnWatchdog/page": {}}}, "_config.txnscope.alerts: unknown KafkaTxnWatchdog/page"),
        ({"alerts": {"KafkaTxnWatchdog": {"wait": "5m"}}}, "_config.txnscope.alerts: unknown KafkaTxnWatchdog: wait"),
    ],
)
def test_a_misspelt_setting_is_named(config: dict[str, Any], error: str) -> None:
    with pytest.raises(RuntimeError, match=re.escape(error)):
        groups(**config)


def test_settings_that_replace_all_others_are_refused_with_the_remedy() -> None:
    with pytest.raises(RuntimeError, match=re.escape("write `txnscope+: {…}`, with a plus")):
        evaluate("((import 'mixin.libsonnet') { _config+:: { txnscope: { matchers: [] } } }).prometheusRules")


def test_mixins_can_be_added_to_each_other() -> None:
    theirs = """{
      _config+:: { clusterLabel: 'k8s' },
      grafanaDashboards+:: { 'theirs.json': {} },
      prometheusAlerts+:: { groups+: [{ name: 'theirs', rules: [] }] },
      prometheusRules+:: { groups+: [{ name: 'theirs', rules: [] }] },
    }"""
    found = "{ boards: std.objectFields(m.grafanaDashboards), groups: [g.name for g in g.groups] }"
    for both in (f"{theirs} + (import 'mixin.libsonnet')", f"(import 'mixin.libsonnet') + {theirs}"):
        for rules in ("prometheusAlerts", "prometheusRules"):
            read = evaluate(f"local m = {both}; local g = m.{rules}; {found}")
            assert read["boards"] == sorted([*FILES, "theirs.json"])
            assert "theirs" in read["groups"]
            assert len(read["groups"]) > 2


def test_alerts_work_with_another_label_of_the_cluster(tmp_path: Path) -> None:
    write(tmp_path, groups(clusterLabel=EXPORTED))
    label = re.compile(r"(?<![-\w$.])cluster(?=[=!]|: )|(?<!scope: )(?<=[({ ])cluster(?=[,)])|(?<=\$labels\.)cluster\b")
    names = [f"{name}.test.yml" for name in QUICK_TESTS]
    for name in names:
        (tmp_path / name).write_text(label.sub(EXPORTED, (FOLDER / name).read_text("utf-8")), "utf-8")
    done = run("promtool", "test", "rules", *names, cwd=tmp_path)
    assert done.returncode == 0, done.stdout + done.stderr


def test_dashboards_ask_for_another_label_of_the_cluster() -> None:
    of_label = re.compile(r"(?<![$\w:])cluster(?![\w:])")
    for board in boards(clusterLabel=EXPORTED).values():
        assert [query for query in queries(board) if of_label.search(query)] == []
        for panel in panels(board):
            text = json.dumps({key: panel[key] for key in panel if key not in ("description", "title")})
            assert not re.search(r'labels\.cluster|fields\.cluster|{{cluster}}|"cluster"', text), panel["title"]
        names = [one["name"] for one in board["templating"]["list"]]
        assert "cluster" in names, "the variable must keep its name, because links from elsewhere contain this name"


def test_the_page_about_the_mixin_names_every_setting_and_works() -> None:
    page = README.read_text("utf-8")
    keys = re.findall(r"^  (\w+):", MIXIN.with_name("config.libsonnet").read_text("utf-8"), re.MULTILINE)
    assert len(keys) > 10
    assert [key for key in keys if f"| `{key}` |" not in page] == []
    (example,) = re.findall(r"```jsonnet\n(.*?)```", page, re.DOTALL)
    read = evaluate(example.replace("txnscope-mixin/", "") + ".prometheusAlerts")
    assert read["groups"]


def test_the_texts_of_the_settings_stand_for_nothing_else() -> None:
    for file in MADE.iterdir():
        assert set(re.findall(r"@\w*@?", file.read_text("utf-8"))) <= {"@clusterLabel@", "@pageUrl@", "@grafanaUrl@"}
