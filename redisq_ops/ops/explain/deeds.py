"""What a suggested command does, in words that begin with its verb."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ..change.wording import state_entries
from ..hint import words_of
from ..terminal import entries


def deed(command: str, facts: Mapping[str, Any]) -> str:
    """``Requeue the 8 entries of geo-3:777``; ``facts``: those of the reason that suggests it."""
    words, options = words_of(command)
    match words:
        case ["requeue"]:
            return f"Requeue {_what_is_held(facts, str(facts.get('consumer')))}"
        case ["requeue", request] if "state" in options:
            return f"Requeue the {options['state']} entries of {request}"
        case ["replay", request] if "dead" in facts and "group" not in facts:
            return f"Replay the {state_entries(facts['dead'], 'dead')} of request {request}"
        case ["replay", queue] if "shards" in facts:
            return f"Replay the dead entries of queue {queue}"
        case ["workers", "claim", _, consumer]:
            return f"Claim {_what_is_held(facts, consumer)} for a consumer that you name"
        case ["work", *_]:
            return f"Start a worker for queue {options.get('queue')}"
        case ["queue" | "request" as noun, "resume", name]:
            return f"Resume {noun} {name}"
        case ["request", setting, request, value]:
            return f"Set the {setting} of request {request} to {value}"
        case ["client", "ls", queue]:
            return f"List the clients of queue {queue}"
        case ["client", rule, _, client]:
            return f"{rule.capitalize()} client {client}"
        case ["client", "rate", _, client, "off"]:
            return f"Remove the rate of client {client}"
        case ["client", rule, _, client, value]:
            return f"Set the {rule} of client {client} to {value}"
        case ["settings", queue, "rate=off"]:
            return f"Remove the rate of queue {queue}"
        case ["periodic", "ls", queue]:
            return f"List the periodic entries of queue {queue}"
        case ["periodic", "rm" | "resume" as verb, address]:
            return f"{'Remove' if verb == 'rm' else 'Resume'} periodic entry {address}"
        case ["trash", "restore", address]:
            return f"Restore {address} from the trash"
        case ["dlq", "groups", queue]:
            return f"Group the dead letters of queue {queue} by error"
        case ["select", queue]:
            return f"List the entries of queue {queue} that fail again and again"
        case ["history", queue]:
            return f"Read the history of queue {queue}"
        case ["log"]:
            return f"Read the audit log of queue {options.get('queue')}"
        case ["fsck", queue]:
            return f"Check the keys of queue {queue}"
        case ["results", address]:
            return f"Print the results of {address}"
        case ["submit", *_]:
            return f"Submit the rest of request {options.get('id')}"
        case ["requeue" | "replay" | "purge" | "undo" | "explain" as verb, what]:
            return f"{verb.capitalize()} {what}"
    return command


def _what_is_held(facts: Mapping[str, Any], consumer: str) -> str:
    held = facts.get("pending")
    return f"the {entries(held)} of {consumer}" if isinstance(held, int) else f"what {consumer} has"
