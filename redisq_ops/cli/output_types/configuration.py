"""JSON about the configuration."""

from __future__ import annotations

from typing import TypedDict


class OtherValueOutput(TypedDict):
    value: str
    origin: str
    """source"""


class ConfigurationValueOutput(TypedDict):
    """Passwords are never shown."""

    name: str
    """[setting](configuration.md)"""
    value: str | None
    """value in use"""
    origin: str
    """where it came from"""
    others: list[OtherValueOutput]
    """values of other sources, less strict"""


class ContextOutput(TypedDict):
    name: str
    """context"""
    url: str | None
    """URL as written in the file"""
    read_only: bool
    """setting in force"""
    max_entries: int | None
    """setting in force"""
    confirm: str
    """setting in force"""
    label: str | None
