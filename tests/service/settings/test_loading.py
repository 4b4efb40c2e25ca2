"""Tests that flags override the environment, the environment overrides the file, and every mistake is reported with its
source."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from service import settings
from service.access.credentials import Hashed
from service.domain.findings.rules import Rule
from service.domain.retention_policy import DEFAULT
from service.settings import SettingsError

DAY_MS = 86_400_000
HASHED = Hashed.of("correct-horse-battery")


@pytest.fixture(autouse=True)
def no_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("CONFIG", "SETTINGS", *(name.upper() for name in settings.Settings.model_fields)):
        monkeypatch.delenv(f"TXNSCOPE_{name}", raising=False)


@pytest.fixture
def config(tmp_path: Path) -> Path:
    return tmp_path / "txnscope.toml"


def test_settings_have_defaults() -> None:
    loaded = settings.load({})
    assert (loaded.host, loaded.port, loaded.store) == ("127.0.0.1", 8080, "sqlite:///txnscope.db")


def test_flags_win_over_the_environment_and_the_environment_over_the_file(
    config: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    config.write_text('port = 1001\nhost = "file"\ncluster = "file"\nkafka_config = "client.properties"\n')
    monkeypatch.setenv("TXNSCOPE_PORT", "1002")
    monkeypatch.setenv("TXNSCOPE_HOST", "environment")
    monkeypatch.setenv("TXNSCOPE_STORE", "")
    loaded = settings.load({"port": "1003", "host": None}, str(config))
    assert loaded.port == 1003
    assert loaded.host == "environment"
    assert loaded.cluster == "file"
    assert loaded.kafka_config == Path("client.properties")
    assert loaded.store == "sqlite:///txnscope.db"


def test_the_environment_can_name_the_settings_file(config: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    config.write_text("port = 1001")
    monkeypatch.setenv("TXNSCOPE_CONFIG", str(config))
    assert settings.load({}).port == 1001


def test_unknown_variables_are_ignored(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TXNSCOPE_SOMETHING_ELSE", "1")
    settings.load({})


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("prot = 1", "unknown key 'prot' (did you mean port?)"),
        ('bootstrap-servers = "b:1"', "unknown key 'bootstrap-servers' (did you mean bootstrap_servers?)"),
        ("[[wheels]]\nround = true", "unknown key 'wheels'"),
        ('[[rules]]\nowner = "me"', "rules: rule 1: needs either prefix or topic"),
        ('[rules]\nprefix = "a"', "rules: not a list of tables: write [[rules]]"),
        ('[keep]\nhistory = "soon"', "keep: history: 'soon' is no duration like 90s, 15m, 24h or 7d"),
        ("port = ", "not TOML: Invalid value ("),
        ('port = "many"', "port: 'many': Input should be a valid integer"),
        ("port = 65536", "port: 65536: Input should be less than or equal to 65535"),
        ('topics = "a/b"', "topics: 'a/b' is neither a topic nor a glob like orders-*"),
        ("mirrored = 5", "mirrored: not a list of topics"),
        (
            'spark_master = "bogus"',
            "spark_master: 'bogus' is not a Spark master: give spark://HOST:PORT, yarn, k8s://URL or local[CORES]",
        ),
        ("spark_conf = 5", "spark_conf: not a table of Spark's settings"),
        ('spark_conf = ["spark.ssl.keyPassword"]', "spark_conf: 'spark.ssl.keyPassword' is not KEY=VALUE"),
        (
            'spark_conf = ["ui.enabled=secret"]',
            "spark_conf: 'ui.enabled' is not a Spark setting: its name has to begin",
        ),
        ("mirrored = [5]", "mirrored: 5 is neither a topic nor a glob like orders-*"),
        ('partitions = "all"', "partitions: 'all' needs --topics, because it reads every byte of these topics"),
        ('partitions = "some"', "partitions: 'some': choose 'stalled' or 'all'"),
        ("cluster = 5", "cluster: 5: Input should be a valid string"),
        ("[[rules]]\nprefix = 'a'\nownr = 'x'", "rules: rule 1: unknown key 'ownr' (did you mean owner?)"),
        ("[[rules]]\nprefix = 'a'\ntopic = 'b'", "rules: rule 1: needs either prefix or topic"),
        ("[[rules]]\nprefix = ''", "rules: rule 1: prefix: '': String should have at least 1 character"),
        (
            "[[rules]]\nprefix = 'a'\nlong_after = 5",
            "rules: rule 1: long_after: 5 is no duration like 90s, 15m, 24h or 7d",
        ),
        (
            "[[rules]]\nprefix = 'a'\nmute_until = 'soon'",
            "rules: rule 1: mute_until: 'soon' is not a time: write one like 2026-03-14T08",
        ),
        ("[[rules]]\nprefix = 'a'\nfull_history = 'yes'", "rules: rule 1: full_history: 'yes': neither true nor false"),
        (
            "[[rules]]\ntopic = 'a'\nfull_history = true",
            "rules: rule 1: full_history needs a prefix, not a topic, because the topics of a",
        ),
        ("[[applications]]\nname = 'pay'", "applications: application 'pay': needs either prefix or pattern"),
        ("[[applications]]\nprefix = 'pay'", "applications: application 1: needs name, or a pattern with a group"),
        (
            "[[applications]]\nname = 'pay'\npattern = 'pay('",
            "applications: application 'pay': pattern 'pay(' is no regular expression: missing )",
        ),
        (
            "[[applications]]\nname = 'pay'\nprefix = 'p'\nkind = 'storm'",
            "applications: application 'pay': kind: 'storm'",
        ),
        (
            "[[applications]]\nname = 'pay'\nprefx = 'p'",
            "applications: application 'pay': unknown key 'prefx' (did you mean prefix?)",
        ),
        ("rules = ['a']", "rules: rule 1: not a table: write [[rules]]"),
        ("[keep]\nhistroy = '7d'", "keep: unknown key 'histroy' (did you mean history?)"),
        (
            "[keep]\nx = '7d'",
            "keep: unknown key 'x'; there are: history, minutes, producer_ids, rejects, gaps, findings",
        ),
        ("[keep]\nhistory = 7", "keep: history: 7 is no duration like 90s, 15m, 24h or 7d"),
        ("[keep]\nhistory = '59m'", "keep: history: '59m' is shorter than an hour"),
        ("keep = ['history']", "keep: not a table: write [keep]"),
        ("insecure = 'perhaps'", "insecure: 'perhaps': neither true nor false"),
        ('allowed_hosts = ["a:1"]', "allowed_hosts: 'a:1' is no host"),
        ("auth = []", "auth: not a table: write [auth]"),
        ("[auth]\nkey = true", "auth: unknown key 'key' (did you mean keys?)"),
        ("[auth]\nkeys = 'store'", "auth: keys: 'store': neither true nor false"),
        ("[auth]\nbasic = []", "auth: basic: not a table: write [auth.basic]"),
        ('[auth.basic.ann]\npassword = "hunter2hunter2"\nroles = ["viewer"]', "auth: basic.ann: password: not a hash"),
        (
            "[auth.basic.ann]\npassword = HASH",
            'auth: basic.ann: roles is missing: write roles = ["viewer", "operator@orders"]',
        ),
        ("[auth.basic.ann]\npassword = HASH\nroles = 'viewer'", "auth: basic.ann: roles: not a list like"),
        ("[auth.basic.ann]\npassword = HASH\nroles = ['root']", "auth: basic.ann: roles: 'root' is no role"),
        ("[auth.basic.'a:b']\npassword = HASH\nroles = ['viewer']", "auth: basic: 'a:b' is no name"),
        ("[auth.oidc]\nissuer = 'https://x'", "auth: oidc: audience is missing"),
        (
            "[auth.oidc]\nissuer = 'https://x'\naudiense = 'a'",
            "auth: oidc: unknown key 'audiense' (did you mean audience?)",
        ),
        ("[auth.oidc]\nissuer = 'http://x'\naudience = 'a'", "auth: oidc: issuer: 'http://x' is no https address"),
        (
            "[auth.oidc]\nissuer = 'https://x'\naudience = 'a'\nroles = {}",
            "auth: oidc: roles: {}: empty: write roles = {",
        ),
        (
            "[auth.oidc]\nissuer = 'https://x'\naudience = 'a'\nroles = 5",
            "auth: oidc: roles: not a table: write roles = {",
        ),
        (
            "[auth.oidc]\nissuer = 'https://x'\naudience = 'a'\nroles.g = ['root']",
            "auth: oidc: roles.g: 'root' is no role",
        ),
    ],
)
def test_a_bad_file_is_named_with_the_key_and_no_secret(config: Path, text: str, complaint: str) -> None:
    config.write_text(text.replace("HASH", f"'{HASHED.text}'"))
    with pytest.raises(SettingsError) as raised:
        settings.load({}, str(config))
    assert str(raised.value).startswith(f"--config {config}: {complaint}")
    assert "\n" not in str(raised.value)
    assert "hunter2" not in str(raised.value)


def test_a_missing_file_is_named(config: Path) -> None:
    with pytest.raises(SettingsError, match="No such file"):
        settings.load({}, str(config))


def test_a_bad_value_is_named_by_its_flag_or_variable(config: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    config.write_text("port = 1001")
    monkeypatch.setenv("TXNSCOPE_PORT", "x")
    with pytest.raises(SettingsError, match=r"^TXNSCOPE_PORT: 'x': "):
        settings.load({}, str(config))
    with pytest.raises(SettingsError, match=r"^--port: '0': "):
        settings.load({"port": "0"}, str(config))


@pytest.mark.parametrize("globs", ["orders-*,pay", "orders-* pay", " orders-* , pay "])
def test_the_environment_can_contain_globs_of_topics(globs: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TXNSCOPE_TOPICS", globs)
    assert settings.load({}).topics == ("orders-*", "pay")
    assert settings.load({"topics": ["a"]}).topics == ("a",)
    monkeypatch.setenv("TXNSCOPE_TOPICS", "orders/*")
    with pytest.raises(SettingsError, match=r"^TXNSCOPE_TOPICS: 'orders/\*' is neither a topic nor a glob like"):
        settings.load({})


def test_every_batch_is_read_only_where_topics_were_named(monkeypatch: pytest.MonkeyPatch) -> None:
    assert settings.load({}).partitions == "stalled"
    assert settings.load({"partitions": "all", "topics": ["pay"]}).partitions == "all"
    monkeypatch.setenv("TXNSCOPE_PARTITIONS", "all")
    with pytest.raises(SettingsError, match=r"^TXNSCOPE_PARTITIONS: 'all' needs --topics, because it"):
        settings.load({})
    monkeypatch.setenv("TXNSCOPE_TOPICS", "pay")
    assert settings.load({}).partitions == "all"


@pytest.mark.parametrize(
    ("flag", "value"),
    [
        *(("cluster", name) for name in ("", ".", "..", "eu/orders", " orders", "or\nders")),
        *(("url", url) for url in ("localhost:8080", "ftp://host", "http://", "http://host:99999", "http://[::1")),
        ("url", "http://h:0"),
    ],
)
def test_a_bad_flag_is_named(flag: str, value: str) -> None:
    """The name of a cluster must fit into a path, and the address of the service must be an HTTP address."""
    with pytest.raises(SettingsError, match=rf"^--{flag}: "):
        settings.load({flag: value})


def test_unusual_names_of_clusters_are_accepted() -> None:
    for name in ("orders", "or ders?#%", "gr\u00fcn", "...", "4L6g3nShT-eMCtK--X86sw"):
        assert settings.load({"cluster": name}).cluster == name


KEYS = {"ann": "the-key-of-ann-000", "bob": "the-key-of-bob-000"}


def test_operators_have_keys(config: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    config.write_text("[operators]\n" + "\n".join(f'{name} = "{key}"' for name, key in KEYS.items()))
    assert settings.load({}, str(config)).operators == KEYS
    monkeypatch.setenv("TXNSCOPE_OPERATORS", json.dumps(KEYS))
    assert settings.load({}).operators == KEYS


def test_some_tables_are_joined_from_file_and_environment(config: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The tables of operators and of retention contain the entries of both the file and the environment. Spark's
    settings in the environment replace Spark's settings in the file."""
    config.write_text(
        f'[operators]\nann = "{KEYS["ann"]}"\n[keep]\nhistory = "2d"\ngaps = "3d"\n[spark_conf]\n"spark.a" = "1"\n'
    )
    monkeypatch.setenv("TXNSCOPE_OPERATORS", json.dumps({"bob": KEYS["bob"]}))
    monkeypatch.setenv("TXNSCOPE_KEEP", '{"gaps": "4d"}')
    monkeypatch.setenv("TXNSCOPE_SPARK_CONF", '{"spark.b": "2"}')
    loaded = settings.load({}, str(config))
    assert loaded.operators == KEYS
    assert loaded.keep.keep == DEFAULT._replace(history=2 * DAY_MS, gaps=4 * DAY_MS)
    assert loaded.spark_conf == {"spark.b": "2"}
    monkeypatch.setenv("TXNSCOPE_KEEP", '{"gaps": "soon"}')
    with pytest.raises(SettingsError, match=r"^TXNSCOPE_KEEP: gaps: 'soon' is no duration"):
        settings.load({}, str(config))
    monkeypatch.setenv("TXNSCOPE_KEEP", '{"rejects": "4d"}')
    config.write_text('[keep]\ngaps = "soon"')
    with pytest.raises(SettingsError, match=r"^--config .*: keep: gaps: 'soon' is no duration"):
        settings.load({}, str(config))


def test_rules_are_read(config: Path) -> None:
    config.write_text(
        '[[rules]]\nprefix = "pay"\nlong_after = "90s"\nowner = "payments"\n'
        '[[rules]]\ntopic = "orders*"\nmute_until = 2026-01-01T00:00:00Z\n'
        '[[rules]]\nprefix = "x"\nmute_until = "2026-01-01T00:00:00"\nfull_history = true\n'
    )
    assert [table.rule for table in settings.load({}, str(config)).rules] == [
        Rule("pay", None, 90_000, "payments"),
        Rule(topic="orders*", mute_until_ms=1_767_225_600_000),
        Rule("x", mute_until_ms=1_767_225_600_000, full_history=True),
    ]


def test_allowed_hosts_are_a_list_or_one_text(monkeypatch: pytest.MonkeyPatch) -> None:
    assert settings.load({"allowed_hosts": ["A.example", "10.0.0.7"]}).allowed_hosts == ("a.example", "10.0.0.7")
    monkeypatch.setenv("TXNSCOPE_ALLOWED_HOSTS", "a.example, [::2]")
    assert settings.load({}).allowed_hosts == ("a.example", "::2")


@pytest.mark.parametrize(
    ("reported", "complaint"),
    [
        ({"ann": "short-key"}, "the key of 'ann' is not 16 or more printable characters without spaces"),
        ({"ann": "the key of ann 000"}, "the key of 'ann' is not 16 or more"),
        ({"ann": "aaaaaaaaaaaaaaaaaaaa"}, "the key of 'ann' has only 1 different characters: take one from"),
        ({"ann": "0123456789abcdef"}, "the key of 'ann' is mostly a row of neighbouring characters"),
        ({"": KEYS["ann"]}, "an operator has no name"),
        ({"ann": KEYS["ann"], "bob": KEYS["ann"]}, "two operators have the same key"),
        ({"ann": 1234567890123456}, "ann: Input should be a valid string"),
        ([KEYS["ann"]], "not a table: write [operators]"),
        ('{"ann": "the-key-of-ann-000', "not JSON"),
    ],
)
def test_a_bad_operator_key_is_refused_and_not_shown(
    reported: object, complaint: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TXNSCOPE_OPERATORS", reported if isinstance(reported, str) else json.dumps(reported))
    with pytest.raises(SettingsError) as raised:
        settings.load({})
    assert str(raised.value).startswith(f"TXNSCOPE_OPERATORS: {complaint}")
    assert not [text for text in (*KEYS.values(), "short-key", "1234567890") if text in str(raised.value)]
