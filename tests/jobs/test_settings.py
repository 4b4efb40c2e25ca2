"""What the streaming application takes from its command line, and what from its environment."""

from __future__ import annotations

import pytest

from spark_jobs.settings import parse

FLAGS = ["--bootstrap-servers", "broker:9092"]


def test_the_store_may_come_in_the_environment_and_a_flag_comes_first(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("TXNSCOPE_STORE", raising=False)
    assert parse(FLAGS).store == "sqlite:///txnscope.db"
    monkeypatch.setenv("TXNSCOPE_STORE", "postgresql://me:secret@host/db")
    assert parse(FLAGS).store == "postgresql://me:secret@host/db"
    assert parse([*FLAGS, "--store", "sqlite:///other.db"]).store == "sqlite:///other.db"
    monkeypatch.setenv("TXNSCOPE_STORE", "")
    assert parse(FLAGS).store == "sqlite:///txnscope.db"
