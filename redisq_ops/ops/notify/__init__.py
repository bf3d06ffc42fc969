"""Tells people of trouble: by webhook, and by Slack, Teams, Discord, e-mail and others.

`settings` reads the table ``[notify]``; `episode` decides, without I/O, what a recipient is told;
`message` words it; `sending` sends it, in bounded time; `told_file` keeps what was told;
`notifier` does one after the other, once for each check.
"""
