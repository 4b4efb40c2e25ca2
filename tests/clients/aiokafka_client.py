"""An application with aiokafka. It accepts the commands in `tests.clients.client`."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Awaitable, Callable

from aiokafka import AIOKafkaProducer, TopicPartition
from aiokafka.errors import KafkaError


class Application:
    """An application with one producer at a time, always under the same transactional.id."""

    def __init__(self, bootstrap: str, transactional_id: str, topic: str, group: str, timeout_ms: str) -> None:
        self._bootstrap, self._id, self._timeout_ms = bootstrap, transactional_id, int(timeout_ms)
        self._topic, self._group, self._offset = topic, group, 0
        self._producer: AIOKafkaProducer

    async def start(self) -> None:
        self._producer = AIOKafkaProducer(
            bootstrap_servers=self._bootstrap,
            transactional_id=self._id,
            transaction_timeout_ms=self._timeout_ms,
        )
        await self._producer.start()

    async def open(self) -> None:
        await self._producer.begin_transaction()
        self._offset += 1
        for partition in (0, 1):
            await self._producer.send_and_wait(self._topic, b"order", partition=partition)
        position = {TopicPartition(self._topic, 0): self._offset}
        await self._producer.send_offsets_to_transaction(position, self._group)

    async def commit(self) -> None:
        await self.open()
        await self._producer.commit_transaction()

    async def abort(self) -> None:
        await self.open()
        await self._producer.abort_transaction()

    async def late(self) -> None:
        """Commits a transaction after its timeout. The commit must be refused. Then starts a new producer under the
        same id."""
        try:
            await self._producer.commit_transaction()
        except KafkaError as error:
            print(f"refused: {error!r}", file=sys.stderr, flush=True)
            try:
                await self._producer.stop()
            except KafkaError as also:
                print(f"refused: {also!r}", file=sys.stderr, flush=True)
            await self.start()
        else:
            raise AssertionError("a commit after the timeout was accepted")


async def main(*arguments: str) -> None:
    application = Application(*arguments)
    await application.start()
    print("ready", flush=True)
    commands: dict[str, Callable[[], Awaitable[None]]] = {
        "commit": application.commit,
        "abort": application.abort,
        "open": application.open,
        "late": application.late,
    }
    while line := await asyncio.to_thread(sys.stdin.readline):
        await commands[line.strip()]()
        print("done", flush=True)


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
