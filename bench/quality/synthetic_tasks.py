#!/usr/bin/env python3
"""Token files of two tasks that tell methods of attention apart: what is asked for lies far away, or everywhere.

    python bench/quality/synthetic_tasks.py copy --context 32K --sequences 512 --distance 16K --seed 1 --out copy.npy
    python bench/quality/synthetic_tasks.py count --context 32K --sequences 512 --seed 1 --out count.npy

copy    A cue and a segment stand somewhere in the context, random filler around them. At the end the cue comes again, and the segment must
        be repeated. Each of its places has --symbols symbols of its own, of which one is drawn, so that one look at the right place is
        enough. At least --distance tokens lie between the two: a window of w tokens in each of l layers carries nothing farther than
        l x w. Pages hold all of it: those that are wanted have to be found.
count   Of each of a few kinds of marks some number is spread over the whole context, filler between them. At the end, after a cue,
        each kind is named, in random order, and its number must follow. The more of the context is not seen, the less is known.

OUT.npy has sequences of --context tokens one after the other, as oomb-train reads them, and one token more. OUT.answers.npy is bool
[sequences, context]: position i is true where its target, token i + 1, is an answer, so that of `oomb-train eval --losses FILE`
numpy.load(FILE).reshape(answers.shape)[answers] are the losses that count. OUT.task.json has the numbers of the task: vocabulary, what is
lost by guessing. Everything follows from --seed. Exit codes: 0 done, 1 failed, 2 wrong usage.
"""

import argparse
import json
import math
import sys
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy

BEGIN, CUE, FIRST_FILLER = 0, 1, 2


class Failure(Exception):
    """What a user has to change."""


@dataclass(frozen=True)
class Copy:
    """Filler symbols come first in the vocabulary, then those of a segment's first place, of its second, ..."""

    context: int
    distance: int  # least number of tokens between the segment and the second cue
    segment: int = 16
    symbols: int = 8
    filler: int = 4

    def __post_init__(self):
        if self.room < 1:
            raise Failure(f"--context {self.context}: a first token, two cues and segments of {self.segment} with {self.distance} tokens between "
                          f"need {self.context + 1 - self.room}")

    @property
    def room(self):
        """Places where the first cue can stand."""
        return self.context - 1 - 2 * (self.segment + 1) - self.distance + 1

    @property
    def vocab(self):
        return FIRST_FILLER + self.filler + self.segment * self.symbols

    @property
    def guessing(self):
        """Nats per answer of one who has not seen the segment."""
        return math.log(self.symbols)

    def draw(self, random):
        tokens = random.integers(FIRST_FILLER, FIRST_FILLER + self.filler, self.context)
        place = numpy.arange(self.segment) * self.symbols
        segment = FIRST_FILLER + self.filler + place + random.integers(self.symbols, size=self.segment)
        tokens[0] = BEGIN
        for first in (1 + int(random.integers(self.room)), self.context - 1 - self.segment):
            tokens[first] = CUE
            tokens[first + 1:first + 1 + self.segment] = segment
        return tokens, numpy.arange(self.context - self.segment, self.context)


@dataclass(frozen=True)
class Count:
    """Marks come after the filler symbols, then the numbers 0 to most."""

    context: int
    kinds: int = 4
    most: int = 7  # a number is uniform in 0 to most
    filler: int = 4

    def __post_init__(self):
        if self.places < self.kinds * self.most:
            raise Failure(f"--context {self.context}: {self.kinds} kinds of up to {self.most} marks, a first token, a cue and what is asked "
                          f"need {self.context - self.places + self.kinds * self.most}")

    @property
    def places(self):
        """Tokens among which marks are spread."""
        return self.context - 2 - 2 * self.kinds

    @property
    def vocab(self):
        return FIRST_FILLER + self.filler + self.kinds + self.most + 1

    @property
    def guessing(self):
        """Nats per answer of one who has counted nothing."""
        return math.log(self.most + 1)

    def draw(self, random):
        first_kind = FIRST_FILLER + self.filler
        tokens = random.integers(FIRST_FILLER, first_kind, self.context)
        numbers = random.integers(self.most + 1, size=self.kinds)
        marks = numpy.repeat(first_kind + numpy.arange(self.kinds), numbers)
        tokens[1 + random.permutation(self.places)[:len(marks)]] = marks
        asked = random.permutation(self.kinds)
        end = 1 + self.places
        tokens[0], tokens[end] = BEGIN, CUE
        tokens[end + 1::2] = first_kind + asked
        answers = numpy.arange(end + 2, self.context, 2)
        tokens[answers] = first_kind + self.kinds + numbers[asked]
        return tokens, answers


TASKS = {"copy": Copy, "count": Count}


def draw_file(task, sequences, seed):
    """Tokens [sequences x context + 1], and which positions' targets are answers, [sequences, context]."""
    random = numpy.random.default_rng(seed)
    tokens = numpy.full(sequences * task.context + 1, BEGIN, numpy.uint16)
    answers = numpy.zeros((sequences, task.context), bool)
    for i in range(sequences):
        row, places = task.draw(random)
        tokens[i * task.context:(i + 1) * task.context] = row
        answers[i, places - 1] = True
    return tokens, answers


def write_file(out, name, task, sequences, seed):
    tokens, answers = draw_file(task, sequences, seed)
    out = Path(out)
    numpy.save(out, tokens)
    numpy.save(out.with_suffix(".answers.npy"), answers)
    facts = {"task": name, **asdict(task), "sequences": sequences, "seed": seed, "vocab": task.vocab, "guessing_nats": task.guessing}
    out.with_suffix(".task.json").write_text(json.dumps(facts, indent=1) + "\n")
    return facts


def score(losses, answers):
    """Of the losses that oomb-train eval --losses wrote: over answers alone. `known` is the share of answers that got more than half of the
    probability, at most the accuracy of the likeliest token."""
    if losses.size != answers.size:
        raise Failure(f"{losses.size} losses, {answers.size} positions: evaluate all sequences of the task's file at its context")
    of_answers = losses.reshape(answers.shape)[answers].astype(float)
    return {"loss": float(of_answers.mean()), "known": float((of_answers < math.log(2)).mean()), "answers": int(answers.sum())}


def tokens_of(text):
    """"32K" as 32768."""
    factor = {"K": 1 << 10, "M": 1 << 20}.get(text[-1:].upper())
    return int(text[:-1]) * factor if factor else int(text)


def main(argv=None):
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    kinds = parser.add_subparsers(dest="task", required=True)
    for name, task in TASKS.items():
        one = kinds.add_parser(name)
        for field, about in task.__dataclass_fields__.items():
            given = {} if about.default is not None and isinstance(about.default, int) else {"required": True}
            one.add_argument(f"--{field}", type=tokens_of, metavar="N", **({"default": about.default} if not given else given))
        one.add_argument("--sequences", type=tokens_of, required=True, metavar="N")
        one.add_argument("--seed", type=int, default=0)
        one.add_argument("--out", required=True, metavar="FILE.npy")
    arguments = vars(parser.parse_args(argv))
    name, out = arguments.pop("task"), Path(arguments.pop("out"))
    sequences, seed = arguments.pop("sequences"), arguments.pop("seed")
    try:
        if out.suffix != ".npy":
            raise Failure(f"--out: found \"{out}\", oomb-train takes tokens from a name that ends in .npy")
        if out.exists():
            raise Failure(f"{out}: exists; remove it or name another --out")
        print(json.dumps(write_file(out, name, TASKS[name](**arguments), sequences, seed)))
    except (Failure, OSError) as error:
        print(f"synthetic_tasks: error: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
