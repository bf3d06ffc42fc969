import pytest
import redis
from redis.backoff import NoBackoff
from redis.retry import Retry

from redisq_ops.demo.server import EmbeddedServer

from ...proxy import FlakyProxy, requests


def through(proxy: FlakyProxy, retries: int) -> redis.Redis:
    return redis.Redis.from_url(proxy.url, protocol=3, retry=Retry(NoBackoff(), retries))


def test_an_unguarded_push_is_applied_once_more_per_lost_reply(
    server: EmbeddedServer, client: redis.Redis
) -> None:
    with FlakyProxy(server.port) as proxy, through(proxy, retries=3) as unlucky:
        proxy.drop_replies(3)
        assert unlucky.lpush("queue", "job") == 4
        assert proxy.seen[b"LPUSH"] == 4
    assert client.lrange("queue", 0, -1) == [b"job"] * 4


def test_a_request_whose_reply_is_lost_was_carried_out(
    server: EmbeddedServer, client: redis.Redis
) -> None:
    with FlakyProxy(server.port) as proxy, through(proxy, retries=0) as unlucky:
        proxy.drop_replies(1)
        with pytest.raises(redis.ConnectionError):
            unlucky.lpush("queue", "job")
    assert client.lrange("queue", 0, -1) == [b"job"]


def test_a_pipeline_is_lost_as_a_whole(server: EmbeddedServer, client: redis.Redis) -> None:
    with FlakyProxy(server.port) as proxy, through(proxy, retries=1) as unlucky:
        proxy.drop_replies(1)
        pipe = unlucky.pipeline(transaction=False)
        pipe.lpush("queue", "job").sadd("sent", "job")
        assert pipe.execute() == [2, 0]
        assert proxy.seen == {b"LPUSH": 2, b"SADD": 2}


def test_without_faults_everything_passes_unchanged(
    server: EmbeddedServer, client: redis.Redis
) -> None:
    payload = bytes(range(256)) * 4096
    with FlakyProxy(server.port) as proxy, through(proxy, retries=0) as lucky:
        lucky.set("key", payload)
        assert lucky.get("key") == payload
        assert proxy.seen == {b"SET": 1, b"GET": 1}
    assert client.get("key") == payload


def test_requests_are_told_apart_wherever_the_stream_is_cut() -> None:
    stream = b"*1\r\n$4\r\nping\r\n*2\r\n$3\r\nGET\r\n$4\r\na\r\nb\r\n"
    whole = [b"PING", b"GET"]
    for cut in range(len(stream) + 1):
        names, end = requests(stream[:cut])
        rest, last = requests(stream[end:])
        assert names + rest == whole
        assert end + last == len(stream)
