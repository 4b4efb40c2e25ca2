"""`make demo`: runs a real broker, applications, and txnscope, which watches them, on one machine until Ctrl-C.

`--full` (`make demo-full`) adds Prometheus, the alert rules and Alertmanager; alerts and notifications are printed.
`--fetch` only downloads the broker. Exit codes: 0 if the demo ended normally; 2 for an unknown argument, or a bad value
in the environment; 3 for any other failure: a port is taken, the download failed, or a program is missing, cannot
start, or died.
"""

from __future__ import annotations

import shutil
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import mkdtemp

from deploy.demo import jars, tour
from deploy.demo.broker import BrokerError
from deploy.demo.child_process import interrupt_on_signals
from deploy.demo.environment import DemoEnvironment, ProgramEnded
from deploy.demo.monitoring import NotInstalled, find_programs
from deploy.demo.options import BadOption, Options, PortTaken, check_ports, read
from deploy.demo.webhook import Notice
from deploy.demo.workload.workload import WorkloadError
from spark_jobs.runtime.java import JavaNotFound

OK, USAGE, FAILED = 0, 2, 3


def main(arguments: list[str]) -> int:
    if not {*arguments} <= {"--full", "--fetch"}:
        _print("usage: [PORT=8080] [KAFKA_PORT=19092] [KAFKA_VERSION=4.3.1] [DEMO_SECONDS=n] make demo")
        _print("       [PROMETHEUS_PORT=9090] [ALERTMANAGER_PORT=9093] [… as above] make demo-full")
        return OK if arguments[0] in ("-h", "--help") else USAGE
    interrupt_on_signals()
    try:
        options = read(full="--full" in arguments)
        check_ports(options)
        if options.monitoring_ports is not None:
            find_programs()  # reported before anything is downloaded
        _fetch(options.kafka_version)
        if "--fetch" in arguments:
            return OK
        with _scratch() as directory:
            _show(options, directory)
    except KeyboardInterrupt:
        pass
    except BadOption as e:
        return _print_error(e, USAGE)
    except (PortTaken, NotInstalled, BrokerError, ProgramEnded, JavaNotFound, WorkloadError, jars.JarsError) as e:
        return _print_error(e, FAILED)
    _print("ended: all processes have stopped")
    return OK


def _fetch(version: str) -> None:
    if jars.is_cached(version):
        return
    began = time.monotonic()
    _print(f"downloading Kafka {version} from Maven Central (about 55 MB) …")
    jars.fetch(version)
    _print(f"downloaded in {time.monotonic() - began:.0f} s")


def _show(options: Options, directory: Path) -> None:
    began = time.monotonic()
    more = "txnscope" if options.monitoring_ports is None else "txnscope, Prometheus, Alertmanager"
    _print(f"starting Kafka {options.kafka_version} on 127.0.0.1:{options.kafka_port}, applications, and {more} …")
    with DemoEnvironment(options, directory, _print_alert) as demo:
        finding = demo.wait_until_ready()
        _print(f"ready after {time.monotonic() - began:.1f} s\n")
        _print(tour.text(options, demo.apps, finding, demo.key_file))
        ends = "Ctrl-C ends the demo." if options.seconds is None else f"The demo ends in {options.seconds:.0f} s."
        _print(f"\n{ends}")
        try:
            demo.run_for(options.seconds)
        finally:
            _print("\nending …")


@contextmanager
def _scratch() -> Iterator[Path]:
    """Yields a directory for logs and data, and removes the directory afterwards. After a failure the directory is kept
    for inspection."""
    directory = Path(mkdtemp(prefix="txnscope-demo-"))
    keep = True
    try:
        yield directory
        keep = False
    except KeyboardInterrupt:
        keep = False
        raise
    finally:
        if keep:
            _print(f"the logs are in {directory}")
        else:
            shutil.rmtree(directory, ignore_errors=True)


def _print_alert(notice: Notice) -> None:
    _print(f"{time.strftime('%H:%M:%S')} {notice.line}")


def _print(text: str) -> None:
    print(text, flush=True)


def _print_error(e: Exception, code: int) -> int:
    print(f"demo: {e}", file=sys.stderr, flush=True)
    return code


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
