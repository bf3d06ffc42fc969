"""`redisq doctor` and `redisq acl`: whether the server is set up well, and users of roles."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import typer

from redisq_ops.core.model.errors import BadInput
from redisq_ops.core.model.exit_codes import DONE, FAILED

from .. import completion
from ..options import argument, command, flag, option, options
from ..output import emit, printable, tell
from ..rows import tell_sentence
from ..session import Session

if TYPE_CHECKING:
    from ..output_types.queues import AclRuleOutput

commands = typer.Typer()
MARKS = {"ok": "ok", "warning": "warning", "wrong": "WRONG", "unknown": "unknown"}


@command(commands, "doctor", prints="Diagnosis")
def doctor(s: Session) -> int:
    """Check server, connection, rights and queues; say what to do. Exit 1 if something is wrong.
    Needs a viewer's rights; what these don't allow is shown as unknown.

    Examples:
      redisq doctor
      redisq doctor --json
    """
    from redisq_ops.ops.doctor.examination import examine

    findings = s.run(examine(s.deployment))
    for finding in findings:
        if s.json:
            emit(finding)
            continue
        node = f"{finding.node}: " if finding.node else ""
        line = f"{MARKS[finding.verdict]:<7}  {finding.check:<12}  {node}{finding.sentence}"
        tell_sentence(line, "")
        if finding.advice:
            tell_sentence(finding.advice, " " * 23)
    return FAILED if any(finding.verdict == "wrong" for finding in findings) else DONE


@options
class AclOptions:
    role: str = argument("ROLE", complete=completion.roles)
    queues: list[str] | None = option(
        "--queue", "NAME", "Only this queue; repeatable.", autocompletion=completion.queues
    )
    keys: list[str] | None = option("--keys", "PATTERN", "Also another program's keys; repeatable.")
    user: str | None = option("--user", "NAME", "Name of the user. [redisq-ROLE]")
    cluster: bool = flag("--cluster", "Add what a client of a Cluster needs, on every node.")


@command(commands, "acl", prints="AclRule")
def acl(s: Session, given: AclOptions) -> int:
    """Print the ACL rule of a role: viewer, producer, worker or operator. Each role may do what the
    one before may. Nothing is sent to a server.

    Examples:
      redisq acl viewer
      redisq acl worker --queue mail --queue later --user mail-worker
      redisq acl operator --keys 'resque:*' --cluster
    """
    from redisq_ops.core.engine.queue_classes import foreign_class
    from redisq_ops.ops.acl_roles import ROLES, rules, setuser

    role = given.role
    if role not in ROLES:
        raise BadInput(f"no role {role!r}; there are {', '.join(ROLES)}")
    for name in given.queues or ():
        if (kind := name.partition(":")[0]) != name and foreign_class(kind):
            raise BadInput(f"{name}: the keys of another program: name them by --keys PATTERN")
    words = rules(
        role,
        prefix=s.config.prefix,
        queues=given.queues or (),
        keys=given.keys or (),
        cluster=given.cluster,
    )
    name = given.user or f"redisq-{role}"
    if s.json:
        rule: AclRuleOutput
        rule = {"role": role, "user": name, "rules": words, "command": setuser(name, words)}
        emit(rule)
    else:
        tell(setuser(name, words))
        if sys.stdout.isatty():
            print(printable("Replace change-me by a password."), file=sys.stderr)
    return 0
