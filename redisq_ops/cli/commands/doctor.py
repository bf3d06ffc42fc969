"""`redisq doctor` and `redisq acl`: whether the server is set up well, and users of roles."""

import typer

from .. import completion
from ..options import argument, command, flag, option, options
from ..session import Session

commands = typer.Typer()


@command(commands, "doctor", prints="Diagnosis")
def doctor(s: Session) -> int:
    """Check server, connection, rights and queues, and say what to do. Exit 1 if something is
    wrong. Needs a viewer's rights; what these don't allow is shown as unknown.

    Examples:
      redisq doctor
      redisq doctor --json
    """
    from ..actions.doctor import doctor

    return doctor(s)


@options
class AclOptions:
    role: str = argument("ROLE")
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
    from ..actions.doctor import acl

    return acl(s, given)
