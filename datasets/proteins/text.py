"""A text file as lines, whatever wrote it: gzip, byte-order marks, Windows line ends, NUL bytes."""

import gzip
import re
import zlib
from pathlib import Path

from elbowroom.datasets.findings import Findings

_CONTROL = re.compile(r"[\x01-\x08\x0e-\x1f\x7f]")


def read_lines(path: Path, findings: Findings) -> list[str] | None:
    """Lines without their ends, a gzip file unpacked; None after a defect."""
    text = _decoded(path, findings)
    if text is None:
        return None
    if not text.strip():
        return findings.defect(path, "", "the file is empty", "fill or remove it")
    return re.split(r"\r\n|\n|\r", text)


def _decoded(path: Path, findings: Findings) -> str | None:
    content = _content(path, findings)
    if content is None:
        return None
    if content[:2] in (b"\xff\xfe", b"\xfe\xff"):
        return findings.defect(path, "", "the text is UTF-16", "save it as UTF-8 or plain ASCII")
    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = content[: error.start].count(b"\n") + 1
        text = content.decode("latin-1")
        if not _CONTROL.search(text):
            findings.warn("text that is not UTF-8, read as Latin-1", path, f"line {line}")
    found = _CONTROL.search(text)
    if found:
        line = text.count("\n", 0, found.start()) + 1
        return findings.defect(path, f"line {line}", "binary content, not text", "check the kind of the file")
    if "\0" in text:
        line = text.count("\n", 0, text.index("\0")) + 1
        findings.warn("NUL byte, left out", path, f"line {line}", text.count("\0"))
        text = text.replace("\0", "")
    return text


def _content(path: Path, findings: Findings) -> bytes | None:
    try:
        content = path.read_bytes()
    except OSError as error:
        return findings.defect(path, "", f"cannot be read ({error.strerror})", "check the path and its permissions")
    packed = content[:2] == b"\x1f\x8b"
    if path.suffix.lower() == ".gz" and content and not packed:
        return findings.defect(path, "", "is not gzip data", "rename it without .gz, or fetch it again")
    if not packed:
        return content
    try:
        return gzip.decompress(content)
    except (EOFError, OSError, zlib.error) as error:
        return findings.defect(path, "", f"damaged gzip data ({error})", "fetch or pack the file again")
