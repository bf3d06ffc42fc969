"""`redisq doctor` and `redisq acl`."""

from __future__ import annotations

import sys
from dataclasses import asdict
from typing import TYPE_CHECKING

from redisq_ops.core.engine.queue_classes import foreign_class
from redisq_ops.core.model.errors import BadInput
from redisq_ops.core.model.exit_codes import DONE, FAILED
from redisq_ops.ops.acl_roles import ROLES, rules, setuser
from redisq_ops.ops.doctor.examination import examine

from ..output import emit, printable, tell
from ..rows import tell_sentence
from ..session import Session

if TYPE_CHECKING:
    from ..commands.doctor import AclOptions

MARKS = {"ok": "ok", "warning": "warning", "wrong": "WRONG", "unknown": "unknown"}


def doctor(s: Session) -> int:
    findings = s.run(examine(s.deployment))
    for finding in findings:
        if s.json:
            emit(asdict(finding))
            continue
        node = f"{finding.node}: " if finding.node else ""
        line = f"{MARKS[finding.verdict]:<7}  {finding.check:<12}  {node}{finding.sentence}"
        tell_sentence(line, "")
        if finding.advice:
            tell_sentence(finding.advice, " " * 23)
    return FAILED if any(finding.verdict == "wrong" for finding in findings) else DONE


def acl(s: Session, given: AclOptions) -> int:
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
        emit({"role": role, "user": name, "rules": words, "command": setuser(name, words)})
    else:
        tell(setuser(name, words))
        if sys.stdout.isatty():
            print(printable("Replace change-me by a password."), file=sys.stderr)
    return 0
