"""In every theme each text is readable, and no meaning hangs on a colour."""

import asyncio

import pytest
from rich.segment import Segment
from rich.style import Style
from textual.color import Color
from textual.filter import NoColor

from redisq_ops.tui import theme
from redisq_ops.tui.app import Top
from redisq_ops.tui.dashboard_settings import DashboardSettings
from redisq_ops.tui.frame import strips, text

from .test_snapshots import Seeded, settled

pytestmark = pytest.mark.slow

MEANINGS = (
    theme.OK,
    theme.WARN,
    theme.BAD,
    theme.HELD,
    theme.DELAYED,
    theme.DEAD,
    theme.DIM,
    theme.PART,
)


def ratio(text: Color, ground: Color) -> float:
    """The contrast of two colours, as WCAG defines it."""

    def light(color: Color) -> float:
        red, green, blue = (
            part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4
            for part in color.normalized
        )
        return 0.2126 * red + 0.7152 * green + 0.0722 * blue

    high, low = sorted((light(text), light(ground)), reverse=True)
    return (high + 0.05) / (low + 0.05)


def drawn(name: str, style: str) -> Style:
    """What a theme makes of a constant's style."""
    filters = [theme.ThemeColors(name)] if name in theme.COLORS else []
    segments = [Segment("x", Style.parse(style))]
    for one in filters:
        segments = one.apply(segments, Color(0, 0, 0))
    found = segments[0].style
    assert found is not None
    return found


@pytest.mark.parametrize(("name", "least"), [("dark", 4.5), ("light", 4.5), ("high-contrast", 7.0)])
def test_every_style_is_readable(name: str, least: float) -> None:
    chosen = theme.THEMES[name]
    grounds = [chosen.background, chosen.surface, chosen.panel, chosen.variables["primary-muted"]]
    texts = [Color.from_rich_color(drawn(name, style).color) for style in MEANINGS]
    texts += [Color.parse(text) for text in (chosen.foreground, chosen.success) if text]
    for ground in grounds:
        assert ground is not None
        assert min(ratio(text, Color.parse(ground)) for text in texts) >= least, ground
    for style in (*theme.HEAT, f"{theme.INK} on {theme.HELD}"):
        heat = drawn(name, style)
        text, back = Color.from_rich_color(heat.color), Color.from_rich_color(heat.bgcolor)
        assert ratio(text, back) >= least, style


def test_the_terminals_own_colours_are_all_that_the_ansi_theme_uses() -> None:
    async def body() -> set[str]:
        app = Top(Seeded(), interval=3600, settings=DashboardSettings(theme="ansi"))
        async with app.run_test(size=(120, 34)) as pilot:
            used = set()
            await settled(app, pilot)
            app.current.table.go_to("mail")
            for key in ("down", "up", "2", "5", "8", "question_mark"):
                await pilot.press(key)
                await settled(app, pilot)
                for strip in strips(app):
                    for segment in strip:
                        colors = (
                            (segment.style.color, segment.style.bgcolor) if segment.style else ()
                        )
                        used |= {c.name for c in colors if c is not None and c.triplet is not None}
            return used

    assert asyncio.run(body()) == set()


def test_without_colour_every_theme_shows_the_same_words() -> None:
    """Rows in trouble, marks, the cursor and the open view are told by text and style alone."""

    async def body(name: str) -> tuple[str, set[str]]:
        app = Top(Seeded(), interval=3600, settings=DashboardSettings(theme=name))
        async with app.run_test(size=(120, 34)) as pilot:
            await settled(app, pilot)
            app.current.table.go_to("mail")
            await pilot.press("5", "down", "space")
            await settled(app, pilot)
            drawn = strips(app)
            bare = [NoColor().apply(list(strip), Color(0, 0, 0)) for strip in drawn]
            cursor = next(line for line in bare if any("●" in part.text for part in line))
            plain = {str(part.style) for line in bare[5:9] for part in line}
            assert {str(part.style) for part in cursor} - plain or name != "ansi"
            return text(app), {str(part.style) for part in cursor}

    frames = {name: asyncio.run(body(name)) for name in theme.THEMES}
    assert len({frame for frame, _ in frames.values()}) == 1
    assert all(any("bold" in style for style in styles) for _, styles in frames.values())
