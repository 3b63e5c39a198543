"""Encodes documents of any length piece by piece, to the tokens of the whole."""

from dataclasses import dataclass

import numpy

PIECE_CHARS = 1 << 16
OVERLAP_CHARS = 1 << 12
MIN_AGREED_TOKENS = 4
BATCH_PIECES = 16


def pieces_of(blocks, piece_chars, overlap_chars):
    """Cuts text into pieces; each begins with the last `overlap_chars` of the one before and is longer than that."""
    text = ""
    for block in blocks:
        text += block
        begin = 0
        while len(text) - begin > piece_chars + overlap_chars:
            yield text[begin:begin + piece_chars + overlap_chars]
            begin += piece_chars
        text = text[begin:]
    if text:
        yield text


@dataclass
class Encoded:
    """A piece with its token ids and, per token, the characters [starts, ends) of the piece that it stands for."""

    text: str
    ids: numpy.ndarray
    starts: numpy.ndarray
    ends: numpy.ndarray

    def tokens_between(self, begin, end):
        first, last = numpy.searchsorted(self.starts, (begin, end))
        return self.ids[first:last]

    def zone(self, begin, end):
        """(ids, starts, ends) of the tokens within the characters [begin, end), positions counted from `begin`."""
        inside = (self.starts >= begin) & (self.ends <= end)
        return self.ids[inside], self.starts[inside] - begin, self.ends[inside] - begin


def seam(left, right, overlap_chars):
    """Where two overlapping pieces may be joined, as (position in left, position in right), or None if they disagree.

    Only the middle half of the overlap is looked at: the ends of a piece lack context. All tokens there must agree; the
    seam is a boundary between tokens that is also one between characters (a character may be several byte tokens).
    """
    begin, end = overlap_chars // 4, overlap_chars * 3 // 4
    shift = len(left.text) - overlap_chars
    zones = left.zone(shift + begin, shift + end), right.zone(begin, end)
    if len(zones[0][0]) < MIN_AGREED_TOKENS or not all(map(numpy.array_equal, *zones)):
        return None
    _, starts, ends = zones[0]
    clean = numpy.flatnonzero((starts[1:] >= ends[:-1]) & (starts[1:] > starts[:-1]))
    if not len(clean):
        return None
    position = begin + int(starts[1 + clean[len(clean) // 2]])
    return shift + position, position


class Encoder:
    """Encodes documents to arrays of token ids."""

    def __init__(self, tokenizer, tally, piece_chars=PIECE_CHARS, overlap_chars=OVERLAP_CHARS):
        self._tokenizer = tokenizer
        self._tally = tally
        self._piece_chars = piece_chars
        self._overlap_chars = overlap_chars

    def encode(self, documents):
        """Yields (ids, is_last_of_document) in order; a document without text yields nothing."""
        held, begin, waiting = None, 0, []
        for piece, is_last in self._encoded(documents):
            joint = None if held is None or waiting else seam(held, piece, self._overlap_chars)
            if held is None:
                held, begin = piece, 0
            elif joint is not None:
                yield held.tokens_between(begin, joint[0]), False
                held, begin = piece, joint[1]
            else:
                waiting.append(piece)
            # Joined only when the length has doubled: then even a document of one endless word takes linear time.
            if waiting and (is_last or self._new_chars(waiting) >= len(held.text)):
                held, waiting = self._joined(held, waiting), []
            if is_last:
                yield held.tokens_between(begin, len(held.text) + 1), True
                held = None

    def _new_chars(self, waiting):
        return sum(len(piece.text) - self._overlap_chars for piece in waiting)

    def _encoded(self, documents):
        """Yields (Encoded, is_last_of_document), encoding many pieces at once: the library spreads them over cores."""
        batch, chars = [], 0
        for piece in self._marked(documents):
            batch.append(piece)
            chars += len(piece[0])
            if chars >= BATCH_PIECES * self._piece_chars:
                yield from self._encode_batch(batch)
                batch, chars = [], 0
        yield from self._encode_batch(batch)

    def _marked(self, documents):
        for blocks in documents:
            previous = None
            for piece in pieces_of(blocks, self._piece_chars, self._overlap_chars):
                if previous is not None:
                    yield previous, False
                previous = piece
            if previous is not None:
                yield previous, True

    def _encode_batch(self, batch):
        texts = [text for text, _ in batch]
        self._tally.encoded_chars += sum(map(len, texts))
        encodings = self._tokenizer.encode_batch(texts, add_special_tokens=False)
        for (text, is_last), encoding in zip(batch, encodings):
            offsets = numpy.array(encoding.offsets, numpy.int64).reshape(-1, 2)
            yield Encoded(text, numpy.array(encoding.ids, numpy.int64), offsets[:, 0], offsets[:, 1]), is_last

    def _joined(self, held, waiting):
        self._tally.joined_pieces += len(waiting)
        text = held.text + "".join(piece.text[self._overlap_chars:] for piece in waiting)
        (whole, _), = self._encode_batch([(text, True)])
        return whole
