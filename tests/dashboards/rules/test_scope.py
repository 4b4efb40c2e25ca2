"""Tests that the options of the generator reach every expression. Also tests that two environments get separate alerts
even if their clusters have the same name."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any, Final

import pytest
import yaml

from dashboards.rules.__main__ import main
from dashboards.rules.build import RULES
from tests.dashboards.rules.files import accepts, run

SELECTOR: Final = re.compile(r"(?<![\w:])((?:kafka_txn_|cluster\w*:)[\w:]+|up(?=\{))(\{[^}]*\})?")
GROUPING: Final = re.compile(r"\b(?:by|on) \(([^)]*)\)")
WITHOUT_CLUSTER: Final = ("up", "kafka_txn_exporter_", "kafka_txn_notifications_", "kafka_txn_otlp_")


def made(folder: Path, *options: str) -> list[dict[str, Any]]:
    """Returns the rules that the generator makes with these options. Asserts that promtool accepts them."""
    assert main([*options, "--out", str(folder)]) == 0
    accepts("promtool", "check", "rules", "--lint=all", "--lint-fatal", folder / RULES)
    return [rule for group in yaml.safe_load((folder / RULES).read_text("utf-8"))["groups"] for rule in group["rules"]]


def test_matchers_and_labels_reach_every_selector_and_grouping(tmp_path: Path) -> None:
    for rule in made(tmp_path, "--match", 'env=~"prod|test"', "--match", 'cluster!="old"', "--by", "region"):
        expr = rule["expr"]
        for name, matchers in SELECTOR.findall(expr):
            assert 'env=~"prod|test"' in matchers, expr
            assert ('cluster!="old"' in matchers) is not name.startswith(WITHOUT_CLUSTER), expr
        for labels in GROUPING.findall(expr):
            assert {"env", "region"} <= set(labels.split(", ")), expr
        assert SELECTOR.search(expr) or expr == "vector(1)"


def test_the_pattern_of_scrape_jobs_is_the_given_one(tmp_path: Path) -> None:
    exprs = [rule["expr"] for rule in made(tmp_path, "--job", r'obs-\d{1,2}|"x"')]
    assert 'up{job=~"obs-\\\\d{1,2}|\\"x\\""} == 0' in exprs
    assert not any(".*txnscope.*" in expr for expr in exprs)


def test_every_alert_has_the_labels_of_the_environment(tmp_path: Path) -> None:
    alerts = [one for one in made(tmp_path, "--label", "env=prod", "--label", "team=a b") if "alert" in one]
    assert alerts
    assert all({"env": "prod", "team": "a b"}.items() <= alert["labels"].items() for alert in alerts)
    assert all(alert["labels"]["service"] == "txnscope" for alert in alerts)


@pytest.mark.parametrize(
    ("option", "value", "error"),
    [
        ("--match", "env=prod", "env=prod is not a matcher"),
        ("--match", 'env="prod"} or vector(1', "is not a matcher"),
        ("--by", "a-b", "a-b is not a valid label name"),
        ("--label", "=prod", " is not a valid label name"),
        ("--job", "(", "( is not a valid pattern of job names"),
    ],
)
def test_a_text_that_prometheus_would_not_take_is_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], option: str, value: str, error: str
) -> None:
    with pytest.raises(SystemExit) as ended:
        main([option, value, "--out", str(tmp_path)])
    assert ended.value.code == 2
    assert error in capsys.readouterr().err
    assert not list(tmp_path.iterdir())


OF_CLUSTER: Final = "job='txnscope',cluster='orders'".replace("'", '"')
FINDING: Final = 'finding="f1",topic="t",partition="0"'


def test_clusters_of_the_same_name_have_alerts_and_ends_of_their_own(tmp_path: Path) -> None:
    """Runs a promtool test with two environments. In "prod", all series end without a resolved finding. Later, in
    "test", the finding is resolved."""
    made(tmp_path, "--by", "env")
    resolved = 'kind="hanging_transaction",status="resolved"'
    series = {
        f'kafka_txn_hanging_transactions{{{OF_CLUSTER},env="prod"}}': "1x5 stale",
        f'kafka_txn_hanging_info{{{OF_CLUSTER},env="prod",{FINDING}}}': "1x5 stale",
        f'kafka_txn_hanging_transactions{{{OF_CLUSTER},env="test"}}': "1x10 0x50",
        f'kafka_txn_hanging_info{{{OF_CLUSTER},env="test",{FINDING}}}': "1x10 stale",
        f'kafka_txn_findings{{{OF_CLUSTER},env="test",{resolved}}}': "0x10 1x50",
    }
    names = "KafkaTransactionHanging|KafkaTxnClusterMissing"
    expr = f'count by (env, alertname) (ALERTS{{alertname=~"{names}",alertstate="firing"}})'
    hangs = [{"labels": f'{{alertname="KafkaTransactionHanging",env="{env}"}}', "value": 1} for env in ("prod", "test")]
    missing = {"labels": '{alertname="KafkaTxnClusterMissing",env="prod"}', "value": 1}
    document = {
        "rule_files": [RULES],
        "evaluation_interval": "1m",
        "tests": [
            {
                "interval": "1m",
                "input_series": [{"series": name, "values": values} for name, values in series.items()],
                "promql_expr_test": [
                    {"expr": expr, "eval_time": "5m", "exp_samples": hangs},
                    {"expr": expr, "eval_time": "50m", "exp_samples": [hangs[0], missing]},
                ],
            }
        ],
    }
    (tmp_path / "scope.test.yml").write_text(yaml.safe_dump(document), "utf-8")
    done = run("promtool", "test", "rules", "scope.test.yml", cwd=tmp_path)
    assert done.returncode == 0, done.stdout + done.stderr
