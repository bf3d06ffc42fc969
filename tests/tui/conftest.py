"""What the dashboard's tests don't look at isn't drawn."""

from typing import Any

import pytest
from textual._compositor import Compositor


@pytest.fixture
def drawing() -> None:
    """The screen is drawn at each change, as in a terminal: for tests that count what is drawn."""


@pytest.fixture(autouse=True)
def undrawn(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without a terminal, Textual draws the screen at each change and throws the lines away: two
    fifths of a test's time. Tests look by `frame.text`, which draws the whole screen then."""
    if "drawing" in request.fixturenames:
        return
    draw = Compositor.render_update

    def drawn_whole(compositor: Compositor, full: bool = False, **options: Any) -> Any:
        """Only for a picture."""
        if full:
            return draw(compositor, full, **options)
        compositor._dirty_regions.clear()
        return None

    monkeypatch.setattr(Compositor, "render_update", drawn_whole)
