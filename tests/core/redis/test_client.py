import asyncio
from pathlib import Path

import pytest
import redis
import redis.exceptions as rx

from redisq_ops.core.model.errors import BadInput, Unreachable
from redisq_ops.core.redis.client import aconnect, connect
from redisq_ops.core.redis.operation import Call, arun
from redisq_ops.core.redis.server_errors import translate
from redisq_ops.demo.server import EmbeddedServer

from ...command_line import Redisq, everywhere


def test_a_server_is_reached_by_its_socket(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    url = f"unix://{tmp_path / 's'}"

    async def awaited() -> object:
        async with aconnect(f"{url}?db=0") as client:
            return await client.ping()

    with EmbeddedServer(args=["--unixsocket", str(tmp_path / "s")]):
        with connect(url) as client:
            everywhere(client)
        assert [row["name"] for row in Redisq(url, capsys).rows("ls")] == ["mail"]
        assert asyncio.run(awaited())


@pytest.mark.parametrize("mode", ["", "+cluster"])
@pytest.mark.parametrize("rest", ["://h?colour=red", "s://h/0?colour=red"])
def test_an_option_that_there_is_not_is_named(
    rest: str, mode: str, capsys: pytest.CaptureFixture[str]
) -> None:
    url = f"redis{rest}".replace("://", f"{mode}://")
    said = Redisq(url, capsys).refusal("ls", code=2)
    assert said == f"{url}: 'colour' is no option"


@pytest.mark.parametrize(
    "url", ["redis://h", "rediss://h", "unix:///x", "redis+sentinel://h:1/mymaster"]
)
def test_a_client_has_more_connections_than_redis_py_s_or_what_the_url_says(url: str) -> None:
    for make in (connect, aconnect):
        pools = [vars(make(url + more))["connection_pool"] for more in ("", "?max_connections=7")]
        assert [pool.max_connections for pool in pools] == [1_000, 7]


def test_every_client_names_an_option_that_a_cluster_s_has_not() -> None:
    for make in (connect, aconnect):
        for option in ("colour", "ssl_ca_certs", "path", "startup_nodes"):
            with pytest.raises(BadInput, match=f"'{option}' is no option$"):
                make(f"redis+cluster://127.0.0.1:1?{option}=red")
    for url in (
        "redis+cluster://127.0.0.1:1/0?max_connections=9",
        "rediss+cluster://h?ssl_check_hostname=no",
    ):
        aconnect(url)
    with pytest.raises(BadInput, match=r"'ssl_password' is no option$"):
        aconnect("rediss+cluster://h?ssl_password=x")
    with pytest.raises(Unreachable):  # the blocking one has it, and looks for the server
        connect("rediss+cluster://127.0.0.1:1?ssl_password=x")


@pytest.mark.parametrize(
    "option",
    ["retry", "service_name", "redis_class", "is_master", "ssl", "host", "connection_pool"],
)
def test_what_no_text_can_give_a_sentinel_s_client_is_no_option(option: str) -> None:
    for make in (connect, aconnect):
        with pytest.raises(BadInput, match=f"'{option}' is no option$"):
            make(f"redis+sentinel://h/m?{option}=1")
    with pytest.raises(BadInput, match=r"'retry' is no option$"):
        connect("redis://h?retry=1")


@pytest.mark.parametrize("hosts", ["", "h1,,h2", "h1,", ":26379"])
def test_a_sentinel_url_names_hosts(hosts: str) -> None:
    for make in (connect, aconnect):
        with pytest.raises(BadInput, match="names hosts"):
            make(f"redis+sentinel://{hosts}/mymaster")


def test_a_cluster_that_is_busy_is_not_called_a_server_alone() -> None:
    def said(refusal: Exception) -> str:
        told = rx.RedisClusterException("Cluster mode is not enabled on this node")
        error = rx.RedisClusterException("Redis Cluster cannot be connected.")
        told.__context__, error.__cause__ = refusal, told
        return str(translate(error))

    busy = "BUSY Redis is busy running a script. You can only call SCRIPT KILL or SHUTDOWN NOSAVE."
    assert said(rx.ResponseError(busy)) == f"can't ask for the Cluster's slots: {busy}"
    alone = rx.ResponseError("This instance has cluster support disabled")
    assert said(alone).startswith("that server is no Cluster")
    assert "is it a Sentinel?" in said(rx.ResponseError("unknown command 'CLUSTER', with args"))


@pytest.mark.parametrize(
    "url, write",
    [
        ("redis+cluster://127.0.0.1:1/3", "a Cluster has no database but 0: write {}"),
        ("redis+cluster://me:pw@127.0.0.1:1?db=3", "a Cluster has no database but 0: write {}"),
        ("unix+cluster:///run/s", "a socket is one server's: write unix://…"),
    ],
)
def test_a_cluster_s_url_says_what_a_cluster_has(
    url: str, write: str, capsys: pytest.CaptureFixture[str]
) -> None:
    plain = f"redis+cluster://{'…@' if '@' in url else ''}127.0.0.1:1"
    shown = url.replace("pw", "***")
    assert Redisq(url, capsys).refusal("ls", code=2) == f"{shown}: {write.format(plain)}"
    for make in (connect, aconnect):
        with pytest.raises(BadInput, match="write"):
            make(url)


@pytest.mark.slow
@pytest.mark.alike
def test_a_server_that_is_no_cluster_is_called_so(
    url: str, client: redis.Redis, capsys: pytest.CaptureFixture[str]
) -> None:
    said = "that server is no Cluster: write redis://… or rediss://…"
    there = url.replace("://", "+cluster://")
    assert Redisq(there, capsys).refusal("ls", code=2) == said
    assert Redisq(there, capsys).refusal("top", "--once", code=2) == said

    async def awaited() -> None:
        await arun(aconnect(there), Call(("PING",), str))

    with pytest.raises(BadInput, match=f"^{said}$"):
        connect(there)
    with pytest.raises(BadInput, match=f"^{said}$"):
        asyncio.run(awaited())
    # To redis-py whoever may not ask which slots there are asks a server without any.
    client.acl_setuser("viewer", enabled=True, passwords=["+pw"], categories=["+@connection"])
    try:
        some = there.replace("//", "//viewer:pw@")
        said = Redisq(some, capsys).refusal("ls", code=1)
        assert said.startswith("the server's ACL says no: ") and "cluster" in said
        said = Redisq(some.replace("pw", "wrong"), capsys).refusal("ls", code=1)
        assert said == "wrong user name or password"
    finally:
        client.acl_deluser("viewer")
    said = Redisq("redis+cluster://127.0.0.1:1", capsys).refusal("ls", code=4)
    assert said.startswith("can't reach the server: Error 111 connecting to 127.0.0.1:1")
