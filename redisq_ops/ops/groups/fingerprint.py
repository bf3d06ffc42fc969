"""Which errors are the same: an error without what differs each time, and a short hash of it.

The same error has the same fingerprint in every process and every release: plans, ``group=`` in
selections and people's notes name it. What is folded, and the golden tests of it, may only change
together with a note to users.
"""

from __future__ import annotations

import re
from functools import lru_cache
from hashlib import blake2b

from redisq_ops.core.model.entry import Entry, Failure

HEAD = 1000
"""characters of a message that are looked at"""
LONGEST = 300
"""characters of a normal form"""

# What a message is made of; whatever is in no piece (spaces, brackets, commas) stays as it is.
_PIECE = re.compile(
    r"""
      (?P<plain> (?: [a-z]{2,}[,.:]?\  )+ )
    | (?P<str> "(?:[^"\\]|\\.)*" | (?<!\w)'(?:[^'\\]|\\.)*'(?!\w)
        | `[^`'\n]*[`'] | “[^”]*” | «[^»]*» )
    | (?P<value> (?<=\)=)\( [^)]* \) )
    | (?P<six> \[ [0-9a-fA-F]*: [0-9a-fA-F:.%\w]* \] (?: :\d+ )? )
    | (?P<date> \b (?:Mon|Tue|Wed|Thu|Fri|Sat|Sun|Jan|Feb|Mar|Apr|May|Jun|Jul|Aug|Sep|Oct|Nov|Dec)
        [a-z]{0,6},? \  [\w ,]{0,18}? \d\d:\d\d (?: :\d\d )? (?: [.,]\d+ )?
        (?: \ ?(?: GMT | UTC | Z | [+-]\d{4} | (?:19|20)\d\d ) )* )
    | (?P<url> [A-Za-z][\w+.-]*://[^\s"'`<>|\\^{}()\[\],]* )
    | (?P<time> \d{4}-\d\d-\d\d [ T] \d\d:\d\d:\d\d (?: [.,]\d+ )? (?: Z | \ ?[+-]\d\d:?\d\d )? )
    | (?P<n> (?<![\w.]) [-+]?\d{1,3} (?: ,\d{3} )+ (?: \.\d+ )? (?!\w) )
    | (?P<word> [A-Za-z]+ (?= [\s,;)] ) )
    | (?P<chunk> [^\s"'`“«()\[\]{}<>,;=|]+ )
    """,
    re.VERBOSE,
)
_SPECIAL = re.compile(r"[\d/\\@]")
_CLOCK = r"\d\d:\d\d(?::\d\d(?:[.,]\d+)?)?(?:Z|[+-]\d\d:?\d\d)?"
_CODE = "py|pyx|rb|js|mjs|cjs|ts|jsx|tsx|java|kt|scala|clj|go|rs|php|c|cc|cpp|h|cs|ex|exs|erl|sql"
_OCTETS = r"\d{1,3}(?:\.\d{1,3}){3}"
# A chunk as a whole, the most particular first.
_WHOLE = re.compile(
    rf"""
      (?P<time> (?: \d{{4}}[-/]\d\d[-/]\d\d | \d\d/\w{{3}}/\d{{4}} ) (?: [T:_]{_CLOCK} )?
        | \d\d:\d\d:\d\d (?: [.,]\d+ )? (?: Z | [+-]\d\d:?\d\d )? )
    | (?P<mail> [\w.+%-]+ @ [\w-]+ (?: \.[\w-]+ )+ )
    | (?P<addr> (?: [\w.-]*/ )? {_OCTETS} (?: :\d+ | /\d+ )?
        | (?: [0-9a-fA-F]{{0,4}}: ){{2,7}} [0-9a-fA-F]{{0,4}} (?: %\w+ )?
        | (?! [^:]*\.(?:{_CODE}): ) (?: localhost | [\w-]+ (?: \.[\w-]+ )+ ) : \d{{1,5}} )
    | (?P<path> (?: [A-Za-z]:[\\/] | \.{{0,2}}/ | ~/ | \\\\ ) .*
        | [^/\\]*[/\\].*[/\\].* | [^/\\]*[/\\]?[^/\\]*\.[A-Za-z]\w{{0,4}} (?: :\d+ ){{1,2}}
        | [^/\\]*[/\\][^/\\]*\.[A-Za-z]\w{{0,4}} )
    | (?P<n> [-+]?\d[\d_]* (?: \.\d+ )? (?: [eE][-+]?\d+ )?
        (?: % | [nuµm]?s | [mhd] | min | secs? | [kKMGT]?i?[bB]
        | (?: [hms]\d+ (?: \.\d+ )? )+ s? )? )
    """,
    re.VERBOSE,
)
_UUID = re.compile(r"(?<![0-9A-Za-z])[0-9a-fA-F]{8}(?:-?[0-9a-fA-F]{4}){3}-?[0-9a-fA-F]{12}(?!\w)")
_WORD = re.compile(r"[^\W_]*\d[^\W_]*")
_TURNS = re.compile(r"(?<=[^\W\d_])(?=\d)|(?<=\d)(?=[^\W\d_])")
_HEX = re.compile(r"(?:0[xX][0-9a-fA-F]+|[0-9a-fA-F]{8,})$")
_ULID = re.compile(r"[0-7][0-9A-HJKMNP-TV-Z]{25}$")
_DIGITS = re.compile(r"\d+")
_AGAIN = re.compile(r"(<\w+>)(?:(?:[,;] ?| |:|\.)\1)+")
# Digits that are part of a name and never differ.
_NAMES = re.compile(
    r"(?:psycopg|urllib|boto|python|py|oauth|ip[vV]|utf|latin|iso|base|md|sha|crc|s|ec|k|h|http|mysql|"
    r"sqlite|neo|u?int|float|win|x|p|pkcs|log|slf|junit|mp|lz|b|web|[vV])\d{1,3}[ejs]?$"
)
# After these a number says which error it is, not how many or whose.
_CODES = (" error", "errno", "http", "http/1.0", "http/1.1", "http/2", "signal", "sqlstate",
    "status", " code", "_code", "-code")  # fmt: skip
# Quoted names of the program (attribute, column, class) say which error it is too; other quoted
# words are somebody's data.
_IDENTIFIER = re.compile(r"[A-Za-z_$][A-Za-z_$.:?!-]{0,79}$")
_OF_CODE = re.compile(r"[^_]_[^_]|[a-z][A-Z]|\w::\w|\w\.\w|^_")
_NAMING = re.compile(
    r"\b(?:attribute|argument|class|column|constraint|field|function|index|key|method|module|"
    r"named?|object|parameter|property|reading|relation|schema|setting|table|type|variable)"
    r"[: (]*$",
    re.IGNORECASE,
)
_NAMED = re.compile(
    r" (?:object|is not defined|is undefined|is not a function|is not a valid|does not exist in)\b"
)
# Codes that are looked up in a manual.
_KNOWN = re.compile(r"(?:E11\d{3}|TS\d{4}|SQL\d{4,5}N?)$")
_LOOKED_UP = re.compile(r"(?:ORA|PLS|TNS|SQLSTATE|CVE)-?\d+(?:-\d+)?$")
_MARKS = {
    "addr": "<addr>",
    "date": "<time>",
    "mail": "<addr>",
    "n": "<n>",
    "path": "<path>",
    "six": "<addr>",
    "time": "<time>",
}
_FRAME = re.compile(
    r"\s+at |\s+from |\s*\.\.\. \d+ |\s*File \"|\S+:\d+:in |\s*goroutine \d|\s+\^|\s+\S+\.go:\d"
)


def fingerprint(entry: Entry) -> str:
    """The group of an entry's error: 8 hex digits, the same for the same kind of error.

    From the error's type and the normal form of its message; entries without an error share the
    group of their reason (``lost``, ``rejected`` …).
    """
    error = entry.error
    if error is None:
        return told(None, "", entry.reason)
    return told(error.type, error.message, entry.reason)


def told(type: str | None, message: str, reason: str | None) -> str:
    """The same of what an entry would say; no ``type``: it has no error."""
    if type is None:
        return _hashed("", "", reason or "")
    return _of(type[:HEAD], message[:HEAD])


def normal(failure_or_text: Failure | str) -> str:
    """An error's message with what differs each time folded away.

    Numbers, ids, addresses, paths, quoted data and times become ``<n> <id> <addr> <path> <str>
    <time>``; stack frames are left out; at most 300 characters, one line.
    """
    text = failure_or_text.message if isinstance(failure_or_text, Failure) else failure_or_text
    return _normal(text[:HEAD])


@lru_cache(maxsize=8192)
def _of(type: str, message: str) -> str:
    return _hashed(_normal(type) if _DIGITS.search(type) else type, _normal(message), "")


@lru_cache(maxsize=8192)  # messages differ where normal forms don't
def _hashed(*parts: str) -> str:
    text = "\0".join(parts).encode("utf-8", "backslashreplace")
    return blake2b(text, digest_size=4).hexdigest()


@lru_cache(maxsize=8192)
def _normal(text: str) -> str:
    if "\n" in text:
        text = _said(text)
    folded = _PIECE.sub(_piece, text)
    if folded.count("<") > 1:
        folded = _AGAIN.sub(r"\1", folded)
    return " ".join(folded.split())[:LONGEST]


def _said(text: str) -> str:
    """The lines of a message that say what is wrong: no stack frames.

    Of a Python traceback that is the end, of all others the beginning.
    """
    lines = [line for line in text.split("\n") if line.strip()]
    if lines and lines[0].startswith("Traceback (most recent call last)"):
        return next((line for line in reversed(lines) if not line[0].isspace()), lines[0])
    return " ".join(line for line in lines if not _FRAME.match(line)) or text


def _piece(found: re.Match[str]) -> str:
    kind = found.lastgroup
    piece = found[0]
    if kind == "plain" or kind == "word":
        return piece
    if kind == "chunk":
        return piece if _SPECIAL.search(piece) is None else _chunk(found, piece)
    if kind == "str":
        return _quoted(found, piece)
    if kind == "value":
        return "(<str>)"
    if kind == "url":
        core = piece.rstrip(".:;!?…")
        return _url(core) + piece[len(core) :]
    return _MARKS[kind or ""]


def _quoted(found: re.Match[str], piece: str) -> str:
    text, name = found.string, piece[1:-1]
    if _IDENTIFIER.match(name) is not None and (
        _OF_CODE.search(name)
        or len(piece) == len(text.strip())
        or _NAMING.search(text[max(0, found.start() - 24) : found.start()])
        or _NAMED.match(text, found.end())
    ):
        return piece
    return "<str>"


def _chunk(found: re.Match[str], piece: str) -> str:
    core = piece.rstrip(".:!?…")
    tail = piece[len(core) :]
    if core.isdigit() and len(core) < 6:
        before = found.string[max(0, found.start() - 20) : found.start()].rstrip(" :=([#").lower()
        told = before.endswith(_CODES) or before == "error"
        return piece if told else "<n>" + tail
    whole = _WHOLE.fullmatch(core)
    if whole is not None:
        return _MARKS[whole.lastgroup or ""] + tail
    return piece if _LOOKED_UP.match(core) else _words(core) + tail


def _url(url: str) -> str:
    """Scheme, host and the path's fixed words; who asks, as whom and for what is left out."""
    scheme, _, rest = url.partition("://")
    rest, query, _ = rest.partition("?")
    host, slash, path = rest.partition("/")
    host = host.rpartition("@")[2].rpartition(":")[0] or host.rpartition("@")[2]
    if re.fullmatch(_OCTETS, host):
        host = "<addr>"
    path = "/".join(_words(part) for part in path.split("/"))
    return f"{scheme}://{_words(host)}{slash}{path}{'?<str>' if query else ''}"


def _words(text: str) -> str:
    if len(text) > 31:
        text = _UUID.sub("<id>", text)
    return _WORD.sub(_word, text)


def _word(found: re.Match[str]) -> str:
    word = found[0]
    if word.isdigit():
        return "<n>"
    if _NAMES.match(word) or _KNOWN.match(word):
        return word
    if _HEX.match(word) or _ULID.match(word):
        return "<id>"
    # Letters and digits in turn, or a long word of both, is nobody's word.
    if len(word) >= 10 and len(_TURNS.findall(word)) >= 3:
        return "<id>"
    return _DIGITS.sub("<n>", word)
