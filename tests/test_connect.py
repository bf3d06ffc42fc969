import asyncio
from pathlib import Path

import pytest

from redisq_ops.core.connect import aconnect, blocking_twin
from redisq_ops.demo.server import EmbeddedServer

from .cli import Redisq, everywhere


def test_a_server_is_reached_by_its_socket(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    url = f"unix://{tmp_path / 's'}"

    async def awaited() -> object:
        async with aconnect(f"{url}?db=0") as client:
            return await client.ping()

    with EmbeddedServer(args=["--unixsocket", str(tmp_path / "s")]):
        with blocking_twin(url) as client:
            everywhere(client)
        assert [row["name"] for row in Redisq(url, capsys).rows("ls")] == ["mail"]
        assert asyncio.run(awaited())


@pytest.mark.parametrize("url", ["redis://h?colour=red", "rediss://h/0?colour=red"])
def test_an_option_that_there_is_not_is_named(url: str, capsys: pytest.CaptureFixture[str]) -> None:
    said = Redisq(url, capsys).refusal("ls", code=2)
    assert said == f"{url}: 'colour' is no option"
