"""A driver whose client is a mutant: `python -m tests.conform.mutants.driver NAME -- DRIVER ...`."""

from __future__ import annotations

import asyncio
import json
import sys
from collections import Counter
from typing import Any

from tests.conform.mutants.mutant import Mutant, Told, mutants
from tests.conform.mutants.proxy import Cluster, chosen

LINE_BYTES_MAX = 1 << 24
PATIENCE_S = 1.0


class Between:
    """Stands between the judge and a driver, and between its client and the brokers."""

    def __init__(self, mutant: Mutant, driver: asyncio.subprocess.Process) -> None:
        self.mutant = mutant
        self.driver = driver
        self.clusters: dict[str, Cluster] = {}
        self.counts: Counter[int] = Counter()

    async def asked(self, request: dict[str, Any]) -> dict[str, Any]:
        """The driver's answer, changed."""
        changes = [each for index, each in enumerate(self.mutant.told) if self.meant(index, each, request)]
        if request["verb"] == "init":
            await self.stand_in(request, changes)
        for change in changes:
            if change.before:
                await self.ask({**request, "verb": change.before})
        if any(change.skip for change in changes):
            return {"id": request["id"], "done": {}}
        answer = await self.ask(request)
        for change in changes:
            if change.also:
                await self.ask({**request, "verb": change.also})
            answer = self.told(change, answer)
        return answer

    def meant(self, index: int, change: Told, request: dict[str, Any]) -> bool:
        if change.verb != request["verb"]:
            return False
        self.counts[index] += 1
        return chosen(self.counts[index], change.nth)

    async def stand_in(self, request: dict[str, Any], changes: list[Told]) -> None:
        bootstrap = request["bootstrap"]
        if bootstrap not in self.clusters:
            self.counts.clear()
            self.clusters[bootstrap] = Cluster(self.mutant)
        addresses = [each.rpartition(":") for each in bootstrap.split(",")]
        ports = [await self.clusters[bootstrap].port_for(host, int(port)) for host, _, port in addresses]
        request["bootstrap"] = ",".join(f"127.0.0.1:{port}" for port in ports)
        for change in changes:
            config = {**request.get("config", {}), **change.config}
            request["config"] = {key: value for key, value in config.items() if value != ""}

    async def ask(self, request: dict[str, Any]) -> dict[str, Any]:
        assert self.driver.stdin is not None
        assert self.driver.stdout is not None
        self.driver.stdin.write(json.dumps(request).encode() + b"\n")
        answer: dict[str, Any] = json.loads(await self.driver.stdout.readline())
        return answer

    @staticmethod
    def told(change: Told, answer: dict[str, Any]) -> dict[str, Any]:
        error = answer.get("error")
        if error is not None and ("any" in change.error or error["name"] in change.error):
            if change.done:
                return {"id": answer["id"], "done": {}}
            told = {**error, "class": change.category or error["class"], "name": change.name or error["name"]}
            return {"id": answer["id"], "error": told}
        if change.records and "done" in answer:
            records = answer["done"]["records"]
            return {"id": answer["id"], "done": {"records": records * 2 if change.records == "twice" else []}}
        return answer


async def main(name: str, command: list[str]) -> None:
    """Play the driver that the command starts, as a mutant."""
    right = Mutant(name="none", about="Nothing is wrong: the proxy alone.", killed_by=[])
    [mutant] = [each for each in (right, *mutants()) if each.name == name]
    pipe = asyncio.subprocess.PIPE
    driver = await asyncio.create_subprocess_exec(*command, stdin=pipe, stdout=pipe, limit=LINE_BYTES_MAX)
    assert driver.stdin is not None
    assert driver.stdout is not None
    between = Between(mutant, driver)
    sys.stdout.write((await driver.stdout.readline()).decode())
    sys.stdout.flush()
    requests = asyncio.StreamReader(limit=LINE_BYTES_MAX)
    await asyncio.get_running_loop().connect_read_pipe(lambda: asyncio.StreamReaderProtocol(requests), sys.stdin)
    while line := await requests.readline():
        print(json.dumps(await between.asked(json.loads(line))), flush=True)
    driver.stdin.close()
    try:
        await asyncio.wait_for(driver.wait(), PATIENCE_S)
    except TimeoutError:
        driver.kill()


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1], sys.argv[3:]))
