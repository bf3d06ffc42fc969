"""Sentinels of a URL, and clients of the server that they name.

``redis+sentinel://user:password@host:26379,host2/mymaster/0?option=…``: user, password and options
are for the servers. Options for the Sentinels are called ``sentinel_…``. The Sentinels are asked
with TLS if the servers are, unless the URL says otherwise.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any
from urllib.parse import parse_qs, urlencode, urlsplit

from redis.backoff import NoBackoff
from redis.connection import parse_url

from ..model.errors import BadInput
from .url import check_database

PORT = 26379
PATIENCE_S = 5.0
"""s; time-out of a single Sentinel"""
EACH_S = 2.0
"""s; time-out of each of several Sentinels"""
OWN = ("sentinel_tls", "sentinel_username", "sentinel_password")
"""options of the URL that are for the Sentinels"""


@dataclass(frozen=True, slots=True)
class Sentinels:
    """The Sentinels' addresses and options, and the name of the primary."""

    nodes: tuple[tuple[str, int], ...]
    name: str
    """the primary's name"""
    tls: bool
    options: dict[str, Any] = field(repr=False)
    """options of the URL, for the servers"""
    username: str | None = None
    password: str | None = field(default=None, repr=False)

    @classmethod
    def of(cls, url: str) -> Sentinels:
        """Read a URL (its scheme without the mode); raises ValueError or `BadInput`."""
        parts = urlsplit(url)
        credentials, at, hosts = parts.netloc.rpartition("@")
        name, _, db = parts.path.strip("/").partition("/")
        if not name:
            raise BadInput("a Sentinel URL names the master: redis+sentinel://host:26379/mymaster")
        nodes = []
        for host in hosts.split(","):
            one = urlsplit(f"//{host}")
            if not one.hostname:
                raise BadInput("a Sentinel URL names hosts: redis+sentinel://host:26379/mymaster")
            nodes.append((one.hostname, PORT if one.port is None else one.port))
        check_database(f"/{db}")
        query = parse_qs(parts.query, keep_blank_values=True)
        own = {option: query.pop(option)[-1] for option in OWN if option in query}
        # The rest is read like a server's URL.
        one_server = f"{parts.scheme}://{credentials}{at}-/{int(db or 0)}?{urlencode(query, True)}"
        read: Any = parse_url  # untyped in redis-py
        options = {k: v for k, v in read(one_server).items() if k != "host"}
        options["ssl"] = options.pop("connection_class", None) is not None
        return cls(
            tuple(nodes),
            name,
            asked_with_tls(url),
            options,
            own.get("sentinel_username"),
            own.get("sentinel_password"),
        )

    def client(self, make: Any, lines: dict[str, Any], replica: bool = False) -> tuple[Any, Any]:
        """The client of the primary or of its replicas, and the Sentinels' client.

        ``make``: redis-py's Sentinel, blocking or not. ``lines``: how connections are made.
        """
        options = lines | self.options
        patience = PATIENCE_S if len(self.nodes) == 1 else EACH_S
        # redis-py tries a Sentinel that is down for a long time before it asks the next.
        asked: dict[str, Any] = {
            "username": self.username,
            "password": self.password,
            "ssl": self.tls,
            "socket_timeout": patience,
            "socket_connect_timeout": patience,
            "retry": type(lines["retry"])(NoBackoff(), 0),
        }
        if self.tls:
            asked |= {k: v for k, v in options.items() if k.startswith("ssl_")}
        if not options["ssl"]:  # then the certificates are for the Sentinels only
            options = {k: v for k, v in options.items() if not k.startswith("ssl_")}
        there = make(self.nodes, sentinel_kwargs=asked)
        return (there.slave_for if replica else there.master_for)(self.name, **options), there


def asked_with_tls(url: str) -> bool:
    """Whether the Sentinels use TLS: as the servers do, unless the URL says otherwise."""
    parts = urlsplit(url)
    wanted = parse_qs(parts.query, keep_blank_values=True).get("sentinel_tls")
    if wanted is None:
        return parts.scheme.startswith(("rediss", "valkeys"))
    if wanted[-1] not in ("yes", "no"):
        raise BadInput(f"sentinel_tls={wanted[-1]}: yes or no")
    return wanted[-1] == "yes"
