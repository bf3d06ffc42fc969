"""JSON about the configuration, and the names of JSON Schemas."""

from __future__ import annotations

from typing import TypedDict


class OtherValue(TypedDict):
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
    others: list[OtherValue]
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


class SchemaNameOutput(TypedDict):
    """Without a name; with one, the command prints the schema itself, on one line."""

    name: str
    """what `redisq schema NAME` takes"""
