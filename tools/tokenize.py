#!/usr/bin/env python3
"""Turns text into the token file that oomb-train reads: OUT.npy (uint16 or uint32, one dimension) and OUT.npy.json.

An input is a text file (one document), a .jsonl file (one document a line, in --field), or a folder of such files,
taken in the order of their names; hidden files and folders are left out. No special token is added except the
end-of-text token after each document; the spelling of a special token in the text becomes that token, as in
transformers.

Memory is constant and time linear in the length of a document, however long: a document is encoded in pieces that
overlap, and two neighbours are joined at a token boundary in the middle of their overlap, where both must have found
the same tokens. Where they did not (a single word or run of blanks longer than about a quarter of the overlap), the two
are encoded again as one piece, so the tokens are those of the whole document and only such a stretch costs more. What
grows: 8 bytes per document, and one line of a .jsonl file is held whole.

Exit codes: 0 done, 1 failed, 2 wrong usage. An existing output is kept unless --force is given; output is written
beside and renamed, so a broken run leaves none.
"""

import sys

sys.path.append(sys.path.pop(0))  # this folder goes last: this very file would hide the standard library's `tokenize`

import argparse
import hashlib
import json
import signal
import time
from dataclasses import dataclass
from pathlib import Path

import numpy
from oomb_tools.failure import Failure
from oomb_tools.pieces import Encoder
from oomb_tools.text import Tally, documents_of, find_files
from oomb_tools.token_file import TokenFile
from tokenizers import Tokenizer


def say(text):
    print(f"tokenize: {text}", file=sys.stderr, flush=True)


@dataclass
class ModelTokens:
    tokenizer: Tokenizer
    sha256: str
    vocab: int
    eos: int | None


def read_json(path):
    try:
        return json.loads(path.read_bytes())
    except ValueError as error:
        raise Failure(f"{path}: not JSON: {error}") from error


def load_tokenizer(path):
    if not path.is_file():
        raise Failure(f"{path}: not found; the model folder must hold the tokenizer in this form (transformers writes "
                      "it with AutoTokenizer.from_pretrained(...).save_pretrained(...))")
    content = path.read_bytes()
    try:
        description = json.loads(content)
        # Nothing may be added, cut off or filled up; and some post-processors trim blanks off the offsets.
        description.update(post_processor=None, truncation=None, padding=None)
        tokenizer = Tokenizer.from_str(json.dumps(description))
    except Exception as error:  # the library raises plain Exception
        raise Failure(f"{path}: not a tokenizer: {error}") from error
    return tokenizer, hashlib.sha256(content).hexdigest()


def load_model_tokens(folder, args):
    tokenizer, sha256 = load_tokenizer(folder / "tokenizer.json")
    config = read_json(folder / "config.json") if (folder / "config.json").is_file() else {}
    highest = max(tokenizer.get_vocab(with_added_tokens=True).values())
    vocab = config.get("vocab_size", highest + 1)
    eos = config.get("eos_token_id") if args.eos_id is None else args.eos_id
    eos = eos[0] if isinstance(eos, list) and eos else eos
    if args.no_eos:
        eos = None
    elif not isinstance(eos, int):
        raise Failure(f"{folder / 'config.json'}: no eos_token_id; pass --eos-id N or --no-eos")
    if eos is not None and not 0 <= eos < vocab:
        raise Failure(f"end-of-text token {eos} is not below the vocabulary of {vocab}")
    return ModelTokens(tokenizer, sha256, vocab, eos)


class Progress:
    """A line to stderr now and then: each second on a terminal, else each 30 seconds."""

    def __init__(self, total_bytes, tally):
        self._total, self._tally = total_bytes, tally
        self._begin = self._shown = time.monotonic()
        self._on_terminal = sys.stderr.isatty()

    def show(self, tokens, is_end=False):
        now = time.monotonic()
        if not is_end and now - self._shown < (1 if self._on_terminal else 30):
            return
        self._shown = now
        seconds = max(now - self._begin, 1e-9)
        done = f"{self._tally.bytes / 2**20:.1f} of {self._total / 2**20:.1f} MiB"
        say(f"{done}, {tokens:,} tokens, {tokens / seconds:,.0f} tokens/s")


def write_tokens(args, files, model, out):
    tally = Tally()
    progress = Progress(sum(path.stat().st_size for path in files), tally)
    documents = (document for path in files for document in documents_of(path, args, tally))
    eos = numpy.array([] if model.eos is None else [model.eos], numpy.int64)
    room = args.limit_tokens or sys.maxsize
    for ids, is_last in Encoder(model.tokenizer, tally).encode(documents):
        # A document without any token gets no end-of-text token either.
        if is_last and out.tokens + len(ids) > out.documents[-1]:
            ids = numpy.concatenate([ids, eos])
        out.append(ids[:room - out.tokens])
        if is_last or out.tokens == room:
            out.end_document()
        progress.show(out.tokens)
        if out.tokens == room:
            break
    progress.show(out.tokens, is_end=True)
    for path in tally.skipped:
        say(f"{path}: not UTF-8, skipped")
    if out.tokens == 0:
        raise Failure(f"no text in {len(files)} file(s): {files[0]} …")
    out.finish(tally)
    say(f"{args.out}: {out.tokens:,} tokens, {len(out.documents) - 1:,} documents, {tally.sources:,} files")


def run(args):
    out = Path(args.out)
    for path in (out, out.with_name(out.name + ".json")):
        if path.exists() and not args.force:
            raise Failure(f"{path}: exists; pass --force to replace it")
    model = load_model_tokens(Path(args.model), args)
    files = find_files(args.inputs, args.include or ["*"])
    token_file = TokenFile(out, model)
    try:
        write_tokens(args, files, model, token_file)
    finally:
        token_file.discard()


def parse(argv):
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", required=True, metavar="DIR", help="model folder: tokenizer.json and config.json")
    parser.add_argument("--out", required=True, metavar="FILE.npy", help="token file; the sidecar gets .json appended")
    parser.add_argument("--include", action="append", metavar="GLOB",
                        help="of a folder only such files, as '*.py' or 'lib/*.md'; may be repeated (default: *)")
    parser.add_argument("--field", default="text", help="key of the text in .jsonl files (default: %(default)s)")
    parser.add_argument("--invalid-utf8", choices=("error", "replace", "skip"), default="error",
                        help="bytes that are no UTF-8: stop, put U+FFFD, or leave the file out (default: %(default)s)")
    parser.add_argument("--eos-id", type=int, metavar="N", help="end-of-text token (default: that of config.json)")
    parser.add_argument("--no-eos", action="store_true", help="append no token after a document")
    parser.add_argument("--limit-tokens", type=int, metavar="N", help="stop after exactly N tokens")
    parser.add_argument("--force", action="store_true", help="replace an existing output")
    parser.add_argument("inputs", nargs="+", metavar="INPUT", help="text file, .jsonl file or folder")
    args = parser.parse_args(argv)
    if not args.out.endswith(".npy"):
        parser.error(f"--out {args.out}: the name must end in .npy")
    if args.limit_tokens is not None and args.limit_tokens < 1:
        parser.error(f"--limit-tokens {args.limit_tokens}: must be at least 1")
    return args


def end_by_signal(number, _frame):
    raise SystemExit(128 + number)  # so that the unfinished file is removed


def main(argv=None):
    args = parse(argv)
    signal.signal(signal.SIGTERM, end_by_signal)
    try:
        run(args)
    except (Failure, OSError) as error:
        say(f"error: {error}")
        return 1
    except KeyboardInterrupt:
        return 128 + signal.SIGINT
    return 0


if __name__ == "__main__":
    sys.exit(main())
