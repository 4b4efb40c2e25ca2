"""A crowd of clients, most of them hostile or clumsy: `python -m tests.benchmarks.crowd_load PORT CLUSTER SHARE`. SHARE
is the fraction of the crowd to run; 1 is the whole crowd.

All clients work at the same time: connections that send nothing; connections that send one byte a second, and are
opened again when the service closes them; people who load a page every 5 s; streams of events; and requests that need
Kafka, one after another. At the end, the program prints the number of answers of each kind.
"""

from __future__ import annotations

import asyncio
import random
import resource
import sys
from collections import Counter
from collections.abc import Awaitable, Callable
from typing import Final

IDLE, DRIPPING, PEOPLE, STREAMS, QUESTIONS = 2_000, 500, 200, 500, 60
POLL_S: Final = 5.0
PAGES: Final = ("", "/findings", "/partitions", "/transactions", "/pipeline")
_OPENED_OVER_S: Final = 20.0
_AGAIN_S: Final = 1.0


class Crowd:
    """The clients of the service at `port`. `seen` counts the statuses and errors that each kind of client got."""

    def __init__(self, port: int, cluster: str) -> None:
        self._port, self._cluster = port, cluster
        self._rng = random.Random(7)
        self.seen: Counter[str] = Counter()

    async def run(self, share: float) -> None:
        kinds = {
            self._idle: IDLE,
            self._drip: DRIPPING,
            self._look: PEOPLE,
            self._stream: STREAMS,
            self._ask: QUESTIONS,
        }
        await asyncio.gather(
            *(self._for_ever(kind) for kind, number in kinds.items() for _ in range(int(number * share)))
        )

    async def _for_ever(self, client: Callable[[], Awaitable[None]]) -> None:
        await asyncio.sleep(self._rng.uniform(0, _OPENED_OVER_S))
        while True:
            try:
                await client()
            except (OSError, asyncio.IncompleteReadError, asyncio.LimitOverrunError) as error:
                self.seen[f"{client.__name__[1:]} {type(error).__name__}"] += 1
            await asyncio.sleep(self._rng.uniform(0, _AGAIN_S))

    async def _idle(self) -> None:
        reader, writer = await self._open()
        await reader.read()
        writer.close()

    async def _drip(self) -> None:
        reader, writer = await self._open()
        for byte in b"GET / HTTP/1.1\r\nHost: localhost\r\nX-Slow: " + b"x" * 600:
            writer.write(bytes([byte]))
            await writer.drain()
            await asyncio.sleep(1)
            if reader.at_eof():
                break
        writer.close()

    async def _look(self) -> None:
        page = self._rng.choice(PAGES)
        await self._get("look", f"/clusters/{self._cluster}{page}")
        await asyncio.sleep(POLL_S)

    async def _stream(self) -> None:
        await self._get("stream", "/api/v1/events")

    async def _ask(self) -> None:
        await self._get("ask", f"/api/v1/clusters/{self._cluster}/partitions/hangs/0/offsets/1")

    async def _open(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        return await asyncio.open_connection("127.0.0.1", self._port)

    async def _get(self, name: str, path: str) -> None:
        reader, writer = await self._open()
        try:
            writer.write(f"GET {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n".encode())
            line = await reader.readuntil(b"\r\n")
            self.seen[f"{name} {line.split()[1].decode()}"] += 1
            await reader.read()
        finally:
            writer.close()


async def main(port: int, cluster: str, share: float) -> None:
    crowd = Crowd(port, cluster)
    running = asyncio.create_task(crowd.run(share))
    print("started", flush=True)
    await asyncio.to_thread(sys.stdin.read)
    running.cancel()
    print(*(f"{kind.replace(' ', ':')}={number}" for kind, number in sorted(crowd.seen.items())))


if __name__ == "__main__":
    wanted, hard = 8_192, resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (wanted if hard == resource.RLIM_INFINITY else min(wanted, hard), hard))
    asyncio.run(main(int(sys.argv[1]), sys.argv[2], float(sys.argv[3])))
