"""Imports redis-py without the SDK of OpenTelemetry: a tenth of the time a short command takes."""

from __future__ import annotations

import sys
from importlib import import_module
from typing import Any

_SDK = "opentelemetry.sdk.metrics"


def import_redis() -> None:
    """Import redis-py as if the SDK weren't installed.

    redis-py imports it for one annotation (``redis.observability.providers``). Its metrics, which
    a handler may switch on, import the SDK again when they begin.
    """
    modules: dict[str, Any] = sys.modules
    if "redis" in modules or _SDK in modules:
        return
    modules[_SDK] = None  # makes an import fail as if the module didn't exist
    try:
        import_module("redis")
    finally:
        del modules[_SDK]
