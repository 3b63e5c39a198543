"""Token files: OUT.npy and its sidecar OUT.npy.json."""

import array
import json
import os

import numpy

from .failure import Failure

FORMAT_VERSION = 1
HEADER_BYTES = 128


def npy_header(dtype, count):
    """Header of format version 1.0, always HEADER_BYTES long, so that the count can be put in at the end."""
    text = f"{{'descr': '{dtype.str}', 'fortran_order': False, 'shape': ({count},), }}"
    prefix = b"\x93NUMPY\x01\x00" + (HEADER_BYTES - 10).to_bytes(2, "little")
    return prefix + text.ljust(HEADER_BYTES - 11).encode() + b"\n"


class TokenFile:
    """Writes OUT.npy and OUT.npy.json; nothing is at either name before `finish`."""

    def __init__(self, out, model):
        self._out, self._model = out, model
        self._dtype = numpy.dtype("<u2" if model.vocab <= 1 << 16 else "<u4")
        self._beside = out.with_name(f".{out.name}.{os.getpid()}.partial")
        self._file = open(self._beside, "wb")
        self._file.write(npy_header(self._dtype, 0))
        self.tokens = 0
        self.documents = array.array("q", [0])

    def append(self, ids):
        if len(ids) and int(ids.max()) >= self._model.vocab:
            raise Failure(f"token {int(ids.max())} of tokenizer.json is not below vocab_size {self._model.vocab} of "
                          "config.json: the tokenizer is another model's")
        ids.astype(self._dtype).tofile(self._file)
        self.tokens += len(ids)

    def end_document(self):
        if self.tokens > self.documents[-1]:
            self.documents.append(self.tokens)

    def finish(self, tally):
        self._file.seek(0)
        self._file.write(npy_header(self._dtype, self.tokens))
        self._file.flush()
        os.fsync(self._file.fileno())
        self._file.close()
        sidecar = self._out.with_name(self._out.name + ".json")
        beside = self._beside.with_suffix(".json")
        try:
            beside.write_text(json.dumps(self._description(tally)) + "\n")
            os.replace(beside, sidecar)
        finally:
            beside.unlink(missing_ok=True)
        os.replace(self._beside, self._out)

    def discard(self):
        self._file.close()
        self._beside.unlink(missing_ok=True)

    def _description(self, tally):
        description = {"format_version": FORMAT_VERSION, "tokens": self.tokens, "dtype": self._dtype.name,
                       "documents": self.documents.tolist(), "tokenizer_sha256": self._model.sha256,
                       "sources": tally.sources, "bytes": tally.bytes}
        if self._model.eos is not None:
            description["eos_token_id"] = self._model.eos
        return description
