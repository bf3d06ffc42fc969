"""What the pages on other frameworks show: a shop's queues after a bad deploy, made by each
framework itself. ``python -m tests.docs.incidents.NAME``; `REDIS_URL` names the server."""
