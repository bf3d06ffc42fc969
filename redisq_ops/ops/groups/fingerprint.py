"""Error fingerprints: a normal form of an error without its variable parts, and a short hash of it.

The same error has the same fingerprint in every process and release, since plans, ``group=`` in
filters and people's notes refer to it. The rules below and their golden tests may only change
together with a note to users.
"""

from __future__ import annotations

import re
from functools import lru_cache
from hashlib import blake2b

from redisq_ops.core.model.entry import Entry, Failure

HEAD = 1000
"""characters of a message that are used"""
LONGEST = 300
"""characters of a normal form"""

# The pieces of a message; characters in no piece (spaces, brackets, commas) are kept.
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
# A chunk that is one value as a whole, the most specific first.
_WHOLE_CHUNK = re.compile(
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
_ALTERNATIONS = re.compile(r"(?<=[^\W\d_])(?=\d)|(?<=\d)(?=[^\W\d_])")
_HEX = re.compile(r"(?:0[xX][0-9a-fA-F]+|[0-9a-fA-F]{8,})$")
_ULID = re.compile(r"[0-7][0-9A-HJKMNP-TV-Z]{25}$")
_DIGITS = re.compile(r"\d+")
_ADDRESS = re.compile(r"0[xX][0-9a-fA-F]+")
_REPEATED_MARK = re.compile(r"(<\w+>)(?:(?:[,;] ?| |:|\.)\1)+")
# Names whose digits are never variable.
_NAME_WITH_DIGITS = re.compile(
    r"(?:psycopg|urllib|boto|python|py|oauth|ip[vV]|utf|latin|iso|base|md|sha|crc|s|ec|k|h|http|mysql|"
    r"sqlite|neo|u?int|float|win|x|p|pkcs|log|slf|junit|mp|lz|b|web|[vV])\d{1,3}[ejs]?$"
)
# After these a number is an error code, not a count or an id.
_CODES = (
    " error",
    "errno",
    "http",
    "http/1.0",
    "http/1.1",
    "http/2",
    "signal",
    "sqlstate",
    "status",
    " code",
    "_code",
    "-code",
)
# A quoted name of the program (attribute, column, class) belongs to the error; other quoted words
# are data.
_IDENTIFIER = re.compile(r"[A-Za-z_$][A-Za-z_$.:?!-]{0,79}$")
_CODE_STYLE = re.compile(r"[^_]_[^_]|[a-z][A-Z]|\w::\w|\w\.\w|^_")
_NAMING = re.compile(
    r"\b(?:attribute|argument|class|column|constraint|field|function|index|key|method|module|"
    r"named?|object|parameter|property|reading|relation|schema|setting|table|type|variable)"
    r"[: (]*$",
    re.IGNORECASE,
)
_NAMED = re.compile(
    r" (?:object|is not defined|is undefined|is not a function|is not a valid|does not exist in)\b"
)
# Error codes of manuals.
_MANUAL_NAME = re.compile(r"(?:E11\d{3}|TS\d{4}|SQL\d{4,5}N?)$")
_MANUAL_CODE = re.compile(r"(?:ORA|PLS|TNS|SQLSTATE|CVE)-?\d+(?:-\d+)?$")
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
    """The fingerprint of an entry's error: 8 hex digits.

    It is made of the error's type without addresses (``0x…``), and the normal form of its message.
    Entries without an error have the fingerprint of their reason (``lost``, ``rejected`` …).
    """
    error = entry.error
    if error is None:
        return error_fingerprint(None, "", entry.reason)
    return error_fingerprint(error.type, error.message, entry.reason)


def error_fingerprint(type: str | None, message: str, reason: str | None) -> str:
    """The fingerprint of an error, or of a reason if ``type`` is None: there is no error."""
    if type is None:
        return _hash("", "", reason or "")
    return _hash_error(type[:HEAD], message[:HEAD])


def normalized(failure_or_text: Failure | str) -> str:
    """The normal form of an error's message, at most 300 characters in one line.

    Numbers, ids, addresses, paths, quoted data and times become ``<n> <id> <addr> <path> <str>
    <time>``; stack frames are left out.
    """
    text = failure_or_text.message if isinstance(failure_or_text, Failure) else failure_or_text
    return _normal(text[:HEAD])


@lru_cache(maxsize=8192)
def _hash_error(type: str, message: str) -> str:
    return _hash(_ADDRESS.sub("<id>", type), _normal(message), "")


@lru_cache(maxsize=8192)  # many messages have the same normal form
def _hash(*parts: str) -> str:
    text = "\0".join(parts).encode("utf-8", "backslashreplace")
    return blake2b(text, digest_size=4).hexdigest()


@lru_cache(maxsize=8192)
def _normal(text: str) -> str:
    if "\n" in text:
        text = _without_stack_frames(text)
    folded = _PIECE.sub(_piece, text)
    if folded.count("<") > 1:
        folded = _REPEATED_MARK.sub(r"\1", folded)
    return " ".join(folded.split())[:LONGEST]


def _without_stack_frames(text: str) -> str:
    """The lines of a message that name the error: the last one of a Python traceback, otherwise all
    but stack frames."""
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
        _CODE_STYLE.search(name)
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
        is_code = before.endswith(_CODES) or before == "error"
        return piece if is_code else "<n>" + tail
    whole = _WHOLE_CHUNK.fullmatch(core)
    if whole is not None:
        return _MARKS[whole.lastgroup or ""] + tail
    return piece if _MANUAL_CODE.match(core) else _words(core) + tail


def _url(url: str) -> str:
    """Scheme, host and the fixed words of the path, without user, port and query."""
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
    if _NAME_WITH_DIGITS.match(word) or _MANUAL_NAME.match(word):
        return word
    if _HEX.match(word) or _ULID.match(word):
        return "<id>"
    # A long word in which letters and digits alternate is an id.
    if len(word) >= 10 and len(_ALTERNATIONS.findall(word)) >= 3:
        return "<id>"
    return _DIGITS.sub("<n>", word)
