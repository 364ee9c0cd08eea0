"""Words of Envoy's configuration that all of its parts say."""

from typing import Any

Config = dict[str, Any]


def typed(name: str, kind: str, **said: Any) -> Config:
    """Give an extension *name* of Envoy, with the full name of its configuration's *kind*."""
    return {"name": name, "typed_config": {"@type": f"type.googleapis.com/{kind}", **said}}


def lua(name: str, program: str) -> Config:
    """Give a filter that runs a *program* in Lua."""
    kind = "envoy.extensions.filters.http.lua.v3.Lua"
    return typed(name, kind, default_source_code={"inline_string": program})


def watched(folder: str, name: str) -> Config:
    """Give a source of configuration; the folder is watched, not the file, which is another one after each renaming."""
    source = {"path": f"{folder}/{name}", "watched_directory": {"path": folder}}
    return {"resource_api_version": "V3", "path_config_source": source}
