"""Documents of text files, .jsonl files and folders, read block by block."""

import codecs
import fnmatch
import json
import os
from dataclasses import dataclass, field
from pathlib import Path

from .failure import Failure

BLOCK_BYTES = 1 << 18
JSONL_SUFFIXES = (".jsonl", ".ndjson")


@dataclass
class Tally:
    """What was read and encoded so far."""

    sources: int = 0
    bytes: int = 0
    skipped: list = field(default_factory=list)
    encoded_chars: int = 0
    joined_pieces: int = 0


def decoded_blocks(path, policy, tally):
    """The text of a file, block by block. Bytes that are no UTF-8 are a Failure, or U+FFFD if `policy` is "replace"."""
    decoder = codecs.getincrementaldecoder("utf-8")("replace" if policy == "replace" else "strict")
    position = 0
    with open(path, "rb") as file:
        while True:
            block = file.read(BLOCK_BYTES)
            pending = len(decoder.getstate()[0])
            try:
                text = decoder.decode(block, final=not block)
            except UnicodeDecodeError as error:
                raise Failure(f"{path}: byte {position - pending + error.start} is not UTF-8; convert the file, leave "
                              "it out with --include, or pass --invalid-utf8 replace|skip") from error
            position += len(block)
            tally.bytes += len(block)
            if text:
                yield text
            if not block:
                return


def is_utf8(path):
    try:
        for _ in decoded_blocks(path, "error", Tally()):
            pass
    except Failure:
        return False
    return True


def jsonl_text(path, number, line, key, policy, tally):
    """The text of one line, or None for a blank line."""
    try:
        line = line.decode("utf-8", "replace" if policy == "replace" else "strict")
        if not line.strip():
            return None
        record = json.loads(line)
    except UnicodeDecodeError as error:
        raise Failure(f"{path}:{number}: byte {error.start} of the line is not UTF-8; convert the file or pass "
                      "--invalid-utf8 replace|skip") from error
    except ValueError as error:
        raise Failure(f"{path}:{number}: not JSON: {error}") from error
    if not isinstance(record, dict) or not isinstance(record.get(key), str):
        keys = ", ".join(record) if isinstance(record, dict) else f"no object but {type(record).__name__}"
        raise Failure(f"{path}:{number}: no string \"{key}\" (found: {keys}); name the key with --field")
    # JSON can spell lone surrogates, which are no text.
    text = record[key].encode("utf-8", "surrogatepass").decode("utf-8", "replace")
    tally.bytes += len(text.encode())
    return text


def documents_of(path, args, tally):
    """Yields each document of a file as an iterable of text blocks."""
    if args.invalid_utf8 == "skip" and not is_utf8(path):
        tally.skipped.append(str(path))
        return
    tally.sources += 1
    if path.suffix.lower() not in JSONL_SUFFIXES:
        yield decoded_blocks(path, args.invalid_utf8, tally)
        return
    with open(path, "rb") as file:
        for number, line in enumerate(file, 1):
            text = jsonl_text(path, number, line, args.field, args.invalid_utf8, tally)
            if text is not None:
                yield [text]


def is_included(relative, patterns):
    name = relative.as_posix()
    return any(fnmatch.fnmatchcase(name if "/" in pattern else relative.name, pattern) for pattern in patterns)


def files_in(folder, patterns):
    def unreadable(error):
        raise error

    for parent, folders, names in os.walk(folder, onerror=unreadable):
        folders[:] = sorted(name for name in folders if not name.startswith("."))
        for name in sorted(names):
            path = Path(parent) / name
            if not name.startswith(".") and path.is_file() and is_included(path.relative_to(folder), patterns):
                yield path


def find_files(inputs, patterns):
    files = []
    for name in inputs:
        path = Path(name)
        if not path.exists():
            raise Failure(f"{path}: no such file or folder")
        found = list(files_in(path, patterns)) if path.is_dir() else [path]
        if not found:
            raise Failure(f"{path}: no file in this folder matches {' '.join(patterns)} (--include)")
        files += found
    return files
