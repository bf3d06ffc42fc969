"""rq imports a task by its name, and refuses those of the main module."""


def resize(path: str, width: int) -> dict:
    return {"width": width, "height": width // 2}
