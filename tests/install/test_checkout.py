"""Runs the commands of docs/install/checkout.md, except the installation, in the environment of the tests, which
`make venv` made."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.helpers.paths import ROOT
from tests.install.machines import ThisMachine
from tests.install.on_a_broker import show_transactions
from tests.install.page_commands import blocks


@pytest.mark.broker
@pytest.mark.spark
@pytest.mark.in_turns
def test_the_commands_of_the_checkout_show_a_brokers_transactions(tmp_path: Path) -> None:
    make, *after = blocks("checkout")
    assert make == "make runtime\n"
    (tmp_path / ".venv").symlink_to(ROOT / ".venv")
    assert "CompleteAbort" in show_transactions(ThisMachine(), after, tmp_path, {"PYTHONPATH": str(ROOT)})
    assert (tmp_path / "txnscope.db").is_file()
