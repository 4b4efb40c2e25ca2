"""Tests that an error is logged in one line, without Spark's stack traces."""

from __future__ import annotations

import pytest

from service.domain.reasons.unread import ErrorText
from service.kafka.errors import KafkaRefused
from spark_jobs.runtime.error_summary import EncodedFailure, encoding_failures, error_summary, reason_of
from tests.helpers.reasons import denied

SPARK = """[STREAM_FAILED] Query [id = 1, runId = 2] terminated with exception: Job aborted due to stage failure
 : org.apache.spark.api.python.PythonException: Traceback (most recent call last):
  File "reader.py", line 1, in step
    raise errors.KafkaRefused("x")
service.kafka.errors.KafkaRefused: no permission on topic t: grant READ on it

\tat org.apache.spark.api.python.BasePythonRunner$ReaderIterator.handlePythonException(PythonRunner.scala:581)
Caused by: java.lang.RuntimeException: something wraps it
=== Streaming Query ==="""


def test_our_own_exception_is_found_in_the_error_of_spark() -> None:
    assert error_summary(RuntimeError(SPARK)) == "no permission on topic t: grant READ on it"


def test_the_reason_of_a_worker_arrives_unchanged() -> None:
    missing = denied("t")
    with pytest.raises(EncodedFailure) as raised, encoding_failures():
        raise KafkaRefused(missing)
    name = f"{EncodedFailure.__module__}.{EncodedFailure.__name__}"
    said = RuntimeError(
        SPARK.replace("service.kafka.errors.KafkaRefused: no permission on", f"{name}: {raised.value}\n")
    )
    assert reason_of(said) == missing
    assert error_summary(said).startswith("no permission on topic t: grant READ on it (`txnscope doctor` prints")
    assert reason_of(KafkaRefused(missing)) == missing


@pytest.mark.parametrize("cut", ['{"code": "no_perm', '{"code": "no_perm}', "{}, x}"])
def test_a_reason_that_cannot_be_decoded_is_reported_as_its_text(cut: str) -> None:
    said = RuntimeError(f"spark_jobs.runtime.error_summary.EncodedFailure: {cut}")
    assert reason_of(said) == ErrorText(cut)


@pytest.mark.parametrize(
    ("text", "summary"),
    [
        (
            "Job aborted\nCaused by: java.lang.OutOfMemoryError: Java heap space\n\tat x",
            "OutOfMemoryError: Java heap space",
        ),
        (
            '[PYTHON_DATA_SOURCE_ERROR] Failed\n  File "reader.py", line 1\nValueError: too much\n SQLSTATE: 38000\n',
            "ValueError: too much",
        ),
        (
            "An exception was raised by the Python Proxy.\nValueError: not enough values\n"
            "=== Streaming Query ===\nIdentifier: transaction_state [id = 1]\n",
            "ValueError: not enough values",
        ),
        (
            "[STREAM_FAILED] Query [id = 9179a80b, runId = f8490f72] terminated with exception:  SQLSTATE: XXKST"
            " (no cause message)",
            "a Python process of Spark has ended",
        ),
    ],
    ids=[
        "innermost cause",
        "behind Spark's error class",
        "before Spark's words",
        "a planner that was killed, in Spark 4.3",
    ],
)
def test_the_text_that_spark_wraps_around_a_cause_is_left_out(text: str, summary: str) -> None:
    assert error_summary(RuntimeError(text)) == summary


@pytest.mark.parametrize(
    ("program", "error", "said"),
    [
        ("/python3", "error=2, No such file or directory", "Spark finds no Python at /python3,"),
        ("/python3", "error=12, Cannot allocate memory", 'IOException: Cannot run program "/python3": error=12'),
        ("chmod", "error=2, No such file or directory", 'IOException: Cannot run program "chmod": error=2'),
    ],
)
def test_only_a_python_that_is_missing_is_called_missing(program: str, error: str, said: str) -> None:
    text = f'An error occurred.\n: java.io.IOException: Cannot run program "{program}": {error}\n\tat x'
    assert said in error_summary(RuntimeError(text))


def test_a_plain_exception_is_summarised_by_its_first_line() -> None:
    assert error_summary(ValueError("range 3-4 does not follow")) == "range 3-4 does not follow"
    assert error_summary(ValueError()) == "ValueError"
