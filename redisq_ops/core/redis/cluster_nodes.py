"""A round on a Cluster, node by node: calls to a lost node fail, all others succeed.

redis-py's own pipeline fails as a whole when one node is gone. That is right for changes, where
half a round would be kept. Reads of many queues go through here instead, with calls that only
read. For calls without an answer the slots are read again, so a replica that took over is asked.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Any

import redis.asyncio as aredis
import redis.exceptions as rx
from redis.asyncio.cluster import PipelineCommand
from redis.cluster import get_node_name

from ..model.errors import Unreachable
from .server_errors import translate

LOST = (rx.ConnectionError, rx.TimeoutError)
_MOVED = (rx.AskError, rx.TryAgainError)  # MOVED is a subclass of ASK in redis-py


@dataclass(slots=True)
class NodeCommand:
    """A command, its route (``target_nodes`` in its options, else its key), and its reply."""

    command: tuple[Any, ...]
    key: Any
    options: dict[str, Any]
    node: str = "?"
    """the name of the node it was sent to last"""
    reply: Any = None

    @property
    def plain(self) -> dict[str, Any]:
        """Its options without the route."""
        return {name: value for name, value in self.options.items() if name != "target_nodes"}


def by_node(client: Any, round: Sequence[NodeCommand]) -> list[Any]:
    """The replies of a round; an exception for each command that a lost node didn't answer."""
    for node, its in _per_node(client, round):
        _ask(client, node, its)
    if lost := [asked for asked in round if isinstance(asked.reply, LOST)]:
        try:
            client.nodes_manager.initialize()
        except (*LOST, rx.RedisClusterException):
            pass
        else:
            for node, its in _other_nodes(client, lost):
                _ask(client, node, its)
    for node, its in _importing(client, round):
        _ask(client, node, its, moving=True)
    for asked in round:
        if isinstance(asked.reply, _MOVED) and "target_nodes" not in asked.options:
            try:
                asked.reply = client.execute_command(*asked.command, **asked.options)
            except (rx.RedisError, rx.RedisClusterException) as error:
                asked.reply = error
    return [_answer(asked) for asked in round]


async def aby_node(client: Any, round: Sequence[NodeCommand]) -> list[Any]:
    """`by_node` for an asyncio cluster client."""
    await asyncio.gather(*(_aask(node, its) for node, its in _per_node(client, round)))
    if lost := [asked for asked in round if isinstance(asked.reply, LOST)]:
        try:
            await client.nodes_manager.initialize()
        except (*LOST, rx.RedisClusterException):
            pass
        else:
            again = _other_nodes(client, lost)
            await asyncio.gather(*(_aask(node, its) for node, its in again))
    pointed = _importing(client, round)
    await asyncio.gather(*(_aask(node, its, moving=True) for node, its in pointed))
    for asked in round:
        if isinstance(asked.reply, _MOVED) and "target_nodes" not in asked.options:
            try:
                asked.reply = await client.execute_command(*asked.command, **asked.options)
            except (rx.RedisError, rx.RedisClusterException) as error:
                asked.reply = error
    return [_answer(asked) for asked in round]


def _per_node(client: Any, round: Sequence[NodeCommand]) -> list[tuple[Any, list[NodeCommand]]]:
    """The commands of each node."""
    nodes: dict[str, tuple[Any, list[NodeCommand]]] = {}
    for asked in round:
        node = asked.options.get("target_nodes")
        try:
            if node is None and asked.key is not None:
                node = client.get_node_from_key(asked.key)
        except rx.RedisClusterException as error:  # no node has the slot
            asked.reply = error
            continue
        node = node or client.get_default_node()
        nodes.setdefault(node.name, (node, []))[1].append(asked)
    return list(nodes.values())


def _other_nodes(client: Any, lost: Sequence[NodeCommand]) -> list[tuple[Any, list[NodeCommand]]]:
    """Other nodes for the commands that a lost node didn't answer."""
    silent = {asked.node for asked in lost}
    placed = _per_node(client, [asked for asked in lost if "target_nodes" not in asked.options])
    return [(node, its) for node, its in placed if node.name not in silent]


def _importing(client: Any, round: Sequence[NodeCommand]) -> list[tuple[Any, list[NodeCommand]]]:
    """The nodes to which slots are migrating, for the keys that are there already."""
    nodes: dict[str, tuple[Any, list[NodeCommand]]] = {}
    for asked in round:
        # Alone, each command would take a trip to the old node and another to the new one.
        if type(asked.reply) is rx.AskError and "target_nodes" not in asked.options:
            node = client.get_node(node_name=get_node_name(asked.reply.host, asked.reply.port))
            if node is not None:
                nodes.setdefault(node.name, (node, []))[1].append(asked)
    return list(nodes.values())


def _ask(client: Any, node: Any, round: Sequence[NodeCommand], moving: bool = False) -> None:
    """``moving``: send ASKING before each command; it applies to the next command only."""
    pipe = client.get_redis_connection(node).pipeline(transaction=False)
    for asked in round:
        if moving:
            pipe.execute_command("ASKING")
        pipe.execute_command(*asked.command, **asked.plain)
    try:
        replies = pipe.execute(raise_on_error=False)[moving :: 1 + moving]
    except LOST as error:
        replies = [error] * len(round)
    for asked, reply in zip(round, replies, strict=True):
        asked.node, asked.reply = node.name, reply


async def _aask(
    node: aredis.cluster.ClusterNode, round: Sequence[NodeCommand], moving: bool = False
) -> None:
    sent = [PipelineCommand(n, *a.command, **a.plain) for n, a in enumerate(round)]
    pairs = [(PipelineCommand(0, "ASKING"), command) for command in sent]
    try:
        await node.execute_pipeline([*chain(*pairs)] if moving else sent)
        replies = [command.result for command in sent]
    except LOST as error:
        replies = [error] * len(round)
    for asked, reply in zip(round, replies, strict=True):
        asked.node, asked.reply = node.name, reply


def _answer(asked: NodeCommand) -> Any:
    """Its reply; the loss of a node as an `Unreachable` that names the node."""
    reply = asked.reply
    if not isinstance(reply, LOST):
        return reply
    # In redis-py a loading server and a wrong password are connection errors, too.
    why = " doesn't answer" if type(reply) in LOST else f": {translate(reply)}"
    error = Unreachable(f"node {asked.node}{why}")
    error.__cause__ = reply
    return error
