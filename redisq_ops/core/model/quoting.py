"""Converts names of other programs (any bytes) to names of ours and back.

A name is shown as its owner writes it, as far as that is safe. Some characters are quoted
(``%2F``): those that are syntax here (``/``, space, ``{ } * |``, ``%``), control and invisible
ones, invalid UTF-8, and what looks like something else (see `_stays`). So two names never look the
same, and `raw_of` gives the owner's bytes back. In keys of ours and in the registry all characters
outside ASCII are quoted: `stored`.
"""

from __future__ import annotations

import re
import unicodedata
from functools import lru_cache
from urllib.parse import quote, quote_from_bytes, unquote_to_bytes

_PRINTABLE = "".join(map(chr, range(0x21, 0x7F)))
_LEGAL = _PRINTABLE.translate(dict.fromkeys(map(ord, "{}*|/%")))
_ALL_LEGAL = re.compile(b"[%b]*" % re.escape(_LEGAL.encode()))

INVISIBLE = re.compile(
    "[\u034f\u115f\u1160\u17b4\u17b5\u180b-\u180d\u180f\u2800\u3164\ufe00-\ufe0d"
    "\uffa0\U000e0100-\U000e01ef]"
)
"""invisible but accepted by `str.isprintable`: the grapheme joiner, Hangul fillers, Khmer
inherent vowels, Mongolian and other variation selectors (but those of emojis), the empty braille
cell"""
_HIGH = re.compile(r"(?:%[89A-Fa-f][0-9A-Fa-f])+")
"""quoted bytes that aren't ASCII"""
_WORD = re.compile("(%[0-9A-Fa-f]{2})|[A-Za-z\x80-\U0010ffff]+")
_TOGETHER = frozenset(
    {"CJK", "HIRAGANA", "KATAKANA", "HANGUL", "BOPOMOFO", "IDEOGRAPHIC", "KATAKANA-HIRAGANA"}
)
"""scripts that may share a word with any other"""
_SCRIPTS = _TOGETHER | {
    "LATIN",
    "GREEK",
    "CYRILLIC",
    "ARMENIAN",
    "HEBREW",
    "ARABIC",
    "DEVANAGARI",
    "BENGALI",
    "GURMUKHI",
    "GUJARATI",
    "ORIYA",
    "TAMIL",
    "TELUGU",
    "KANNADA",
    "MALAYALAM",
    "SINHALA",
    "THAI",
    "LAO",
    "TIBETAN",
    "MYANMAR",
    "GEORGIAN",
    "ETHIOPIC",
    "KHMER",
    "THAANA",
}
"""scripts in general use today, by the first word of their characters' names (Unicode, UAX 31)"""
_ALIKE = frozenset(
    "\u0251\u0261\u01c0\u01c1\u01c3"  # Latin: alpha, script g, clicks
    "\u0410\u0412\u0415\u0405\u0406\u0408\u041a\u041c\u041d\u041e\u0420\u0421\u0422\u0423\u0425"
    "\u0430\u0435\u043e\u0440\u0441\u0443\u0445\u0455\u0456\u0458\u04bb\u0501\u051b\u051d"
    "\u0401\u0451\u0407\u0457\u04c0\u04cf\u04ae\u04af"  # Cyrillic
    "\u0391\u0392\u0395\u0396\u0397\u0399\u039a\u039c\u039d\u039f\u03a1\u03a4\u03a5\u03a7"
    "\u03b1\u03b9\u03ba\u03bd\u03bf\u03c1\u03c4\u03c5\u03c7\u03cc\u03af\u03f3"  # Greek
    "\u0585\u057d\u0578\u0570\u0566"  # Armenian
)
"""letters that look like Latin ones"""


def legal(raw: bytes) -> str:
    """A legal name that `raw_of` converts back: ``{a} b`` is ``%7Ba%7D%20b``. It may be long."""
    if _ALL_LEGAL.fullmatch(raw):
        return raw.decode()
    return shown(quote_from_bytes(raw, safe=_LEGAL))


def raw_of(name: str) -> bytes:
    """The bytes from which `legal` made a name; for any other name, its own bytes."""
    return unquote_to_bytes(name.encode("utf-8", "surrogateescape"))


@lru_cache(4096)
def shown(name: str) -> str:
    """A name in the form that `legal` makes; in ``name`` any characters may be quoted."""
    if name.isascii() and "%" not in name:
        return name
    plain = _HIGH.sub(lambda found: text(unquote_to_bytes(found[0])), name)
    if plain.isascii():
        return name
    return _WORD.sub(lambda found: found[0] if found[1] else _word(found[0]), plain)


def stored(name: str) -> str:
    """A name in ASCII, as it is in keys and in the registry; `shown` converts it back."""
    return name if name.isascii() else quote(bytes_of(name), safe=_PRINTABLE)


def text(raw: bytes) -> str:
    """Bytes as text that `bytes_of` converts back, also where they aren't UTF-8."""
    return raw.decode("utf-8", "surrogateescape")


def bytes_of(text: str) -> bytes:
    """The bytes that `text` was made of. JSON may have half a character (``\\ud800``), which no
    bytes make: three bytes stand for it."""
    try:
        return text.encode("utf-8", "surrogateescape")
    except UnicodeEncodeError:
        return text.encode("utf-8", "surrogatepass")


def _word(word: str) -> str:
    """A word; characters that could make it look like another word are quoted."""
    if word.isascii():
        return word
    letters = [c for c in word if unicodedata.category(c)[0] in "LM"]
    scripts = {_script(c) for c in letters} - _TOGETHER
    foreign = {c for c in letters if not c.isascii()}
    clear = (
        len(scripts) <= 1
        and unicodedata.category(word[0])[0] != "M"  # it would combine with the character before it
        and (not foreign or not foreign <= _ALIKE)
        and unicodedata.normalize("NFC", word) == word
    )
    return "".join(c if c.isascii() or (clear and _stays(c)) else _quoted(c) for c in word)


def _stays(c: str) -> bool:
    """Whether a character needs no quoting: an emoji, or a letter or mark of a script in general
    use that neither looks like punctuation nor is a variant form of a letter."""
    if not c.isprintable() or INVISIBLE.match(c):
        return False
    category, form = unicodedata.category(c), unicodedata.decomposition(c).partition(" ")[0]
    if category == "So":
        return c >= "\U0001f000" and not form
    if category[0] not in "LM" or _script(c) not in _SCRIPTS:
        return False
    # A compatibility form is a ligature, but in Thai and Lao also a vowel.
    return not form.startswith("<") or (form == "<compat>" and _script(c) != "LATIN")


def _script(c: str) -> str:
    return unicodedata.name(c, "").partition(" ")[0]


def _quoted(c: str) -> str:
    return quote_from_bytes(bytes_of(c), safe="")
