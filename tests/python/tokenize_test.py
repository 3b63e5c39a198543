"""tools/tokenize.py: the tokens are those of the whole document, the files are what the trainer expects."""

import hashlib
import json
import random
import tracemalloc

import numpy
import pytest
from tokenizers import Regex, Tokenizer, models, normalizers, pre_tokenizers, trainers

from oomb_tools.pieces import Encoder
from oomb_tools.text import Tally

LLAMA3_SPLIT = (r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+"
                r"|\s+(?!\S)|\s+")


def train(tokenizer, trainer, text):
    tokenizer.train_from_iterator(text.splitlines(keepends=True), trainer)
    return tokenizer


def llama3_like(text):
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence([
        pre_tokenizers.Split(Regex(LLAMA3_SPLIT), "isolated"),
        pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False),
    ])
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    return train(tokenizer, trainers.BpeTrainer(vocab_size=2000, initial_alphabet=alphabet, show_progress=False), text)


def sentencepiece_like(text):
    """As Llama 2: no pre-tokenizer, a blank put before the text, so that merges see the whole document."""
    tokenizer = Tokenizer(models.BPE(unk_token="<unk>"))
    tokenizer.pre_tokenizer = pre_tokenizers.Metaspace()
    trainer = trainers.BpeTrainer(vocab_size=2000, special_tokens=["<unk>"], show_progress=False)
    train(tokenizer, trainer, text)
    tokenizer.pre_tokenizer = None
    tokenizer.normalizer = normalizers.Sequence([normalizers.Prepend("▁"), normalizers.Replace(" ", "▁")])
    return tokenizer


def unigram(text):
    tokenizer = Tokenizer(models.Unigram())
    tokenizer.normalizer = normalizers.NFKC()
    tokenizer.pre_tokenizer = pre_tokenizers.Metaspace()
    trainer = trainers.UnigramTrainer(vocab_size=1000, unk_token="<unk>", special_tokens=["<unk>"], show_progress=False)
    return train(tokenizer, trainer, text)


def smollm2_tokenizer(folder):
    description = json.loads((folder / "tokenizer.json").read_text())
    description["post_processor"] = None
    return Tokenizer.from_str(json.dumps(description))


def piecewise(tokenizer, text, piece_chars, overlap_chars, tally=None):
    encoder = Encoder(tokenizer, tally or Tally(), piece_chars, overlap_chars)
    return [int(token) for ids, _ in encoder.encode([[text]]) for token in ids]


def whole(tokenizer, text):
    return tokenizer.encode(text, add_special_tokens=False).ids


@pytest.fixture(scope="module")
def text(real_text):
    return real_text.read_text()


@pytest.mark.parametrize("make", [llama3_like, sentencepiece_like, unigram])
def test_pieces_give_the_tokens_of_the_whole(make, text):
    tokenizer = make(text)
    tally = Tally()
    assert piecewise(tokenizer, text, 256, 128, tally) == whole(tokenizer, text)
    # There are about 390 seams. Were most of them mended, the whole would be compared with itself.
    assert tally.joined_pieces < 40


@pytest.mark.parametrize("piece_chars, overlap_chars", [(300, 128), (1000, 400), (1 << 14, 1 << 12)])
def test_pieces_give_the_tokens_of_the_whole_for_a_real_tokenizer(smollm2, text, piece_chars, overlap_chars):
    tokenizer = smollm2_tokenizer(smollm2)
    assert piecewise(tokenizer, text, piece_chars, overlap_chars) == whole(tokenizer, text)


def awkward_texts():
    generator = random.Random(7)
    yield "one endless word", "a" * 20000
    yield "one rule", "=" * 20000 + "\n" + "-" * 5000
    yield "blanks", "x" + " " * 9000 + "y" + "\n" * 9000 + "z"
    yield "characters of several tokens", "".join(chr(generator.randrange(0x4E00, 0x9FFF)) for _ in range(9000))
    yield "emoji and accents", "e\u0301👩‍👩‍👧‍👦 ça\u00a0va?\r\n" * 900
    yield "no blanks at all", "".join(generator.choice("abcdefgh,.;:0123456789") for _ in range(20000))
    yield "special tokens in the text", "word <|im_end|><|endoftext|>\n" * 900


@pytest.mark.parametrize("name, awkward", list(awkward_texts()))
def test_awkward_texts(smollm2, name, awkward):
    tokenizer = smollm2_tokenizer(smollm2)
    assert piecewise(tokenizer, awkward, 1024, 512) == whole(tokenizer, awkward), name


def test_a_seam_that_ignores_disagreement_is_noticed(smollm2):
    """The comparison above can fail: cutting without an overlap changes tokens."""
    tokenizer = smollm2_tokenizer(smollm2)
    line = "internationalisation   \n\n" * 200
    cut = [token for begin in range(0, len(line), 64) for token in whole(tokenizer, line[begin:begin + 64])]
    assert cut != whole(tokenizer, line)


@pytest.mark.parametrize("sample", ["plain words and 12 numbers\n", "a", "= "])
def test_work_is_linear_in_the_length(smollm2, sample):
    tokenizer = smollm2_tokenizer(smollm2)
    encoded = []
    for length in (1 << 17, 1 << 19):
        tally = Tally()
        text = (sample * length)[:length]
        piecewise(tokenizer, text, 4096, 512, tally)
        encoded.append(tally.encoded_chars / length)
    # Overlap costs 1/8; mending costs at most the pieces once more and the doublings (1 + 1/2 + …) of the whole.
    assert max(encoded) <= 1.2 + 3
    assert encoded[1] <= 1.1 * encoded[0]


def test_memory_does_not_grow_with_the_document(smollm2):
    tokenizer = smollm2_tokenizer(smollm2)

    def peak(blocks):
        tracemalloc.start()
        for _ in Encoder(tokenizer, Tally(), 4096, 512).encode([["some text of a long document\n" * 100] * blocks]):
            pass
        peak_bytes = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        return peak_bytes

    peak(10)
    assert peak(400) < 1.2 * peak(100)  # 1.2 MB and 0.3 MB of text; a batch is 64 kB


# --- the files -------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def byte_model(run_tool, tmp_path_factory):
    """A model folder whose token ids are bytes; its end-of-text token is byte 0."""
    folder = tmp_path_factory.mktemp("model") / "bytes"
    assert run_tool("make_smollm2.py", "--random", "--out", folder, "--layers", 1, "--hidden", 64).returncode == 0
    return folder


@pytest.fixture
def tokenize(run_tool, byte_model, tmp_path):
    def run(*arguments, model=byte_model):
        return run_tool("tokenize.py", "--model", model, "--out", tmp_path / "out.npy", *arguments)

    return run


def result_of(tmp_path):
    return numpy.load(tmp_path / "out.npy"), json.loads((tmp_path / "out.npy.json").read_text())


def test_documents_and_sidecar(tokenize, byte_model, tmp_path):
    folder = tmp_path / "texts"
    (folder / "sub").mkdir(parents=True)
    (folder / "b.txt").write_bytes("zwölf\r\n".encode())
    (folder / "a.txt").write_text("one")
    (folder / "empty.txt").write_text("")
    (folder / ".hidden").write_text("hidden")
    (folder / "sub" / "c.jsonl").write_text('{"text": "x"}\n\n{"text": "yz"}\n')
    result = tokenize(folder)
    assert result.returncode == 0, result.stderr
    tokens, sidecar = result_of(tmp_path)
    expected = b"one\0" + "zwölf\r\n".encode() + b"\0" + b"x\0" + b"yz\0"
    assert tokens.dtype == numpy.uint16 and tokens.ndim == 1
    assert bytes(tokens.astype(numpy.uint8)) == expected
    assert sidecar == {
        "format_version": 1, "tokens": len(expected), "dtype": "uint16", "documents": [0, 4, 13, 15, 18],
        "tokenizer_sha256": hashlib.sha256((byte_model / "tokenizer.json").read_bytes()).hexdigest(),
        "eos_token_id": 0, "sources": 4, "bytes": 3 + 8 + 3,
    }


def test_include_field_and_no_eos(tokenize, tmp_path):
    folder = tmp_path / "texts"
    (folder / "sub").mkdir(parents=True)
    (folder / "a.md").write_text("md")
    (folder / "a.py").write_text("py")
    (folder / "sub" / "b.jsonl").write_text('{"content": "\\u00fc", "text": 3}\n')
    assert tokenize("--include", "*.py", "--include", "sub/*", "--field", "content", "--no-eos", folder).returncode == 0
    tokens, sidecar = result_of(tmp_path)
    assert bytes(tokens.astype(numpy.uint8)) == "pyü".encode()
    assert sidecar["documents"] == [0, 2, 4] and "eos_token_id" not in sidecar


@pytest.mark.parametrize("limit, documents", [(2, [0, 2]), (4, [0, 4]), (6, [0, 4, 6]), (100, [0, 4, 8])])
def test_limit(tokenize, tmp_path, limit, documents):
    (tmp_path / "a.txt").write_text("abc")
    (tmp_path / "b.txt").write_text("def")
    assert tokenize("--limit-tokens", limit, tmp_path / "a.txt", tmp_path / "b.txt").returncode == 0
    tokens, sidecar = result_of(tmp_path)
    assert bytes(tokens.astype(numpy.uint8)) == b"abc\0def\0"[:limit]
    assert sidecar["documents"] == documents and sidecar["tokens"] == len(tokens)


def test_a_large_vocabulary_is_stored_in_32_bits(tokenize, byte_model, tmp_path):
    model = tmp_path / "large"
    model.mkdir()
    (model / "tokenizer.json").write_bytes((byte_model / "tokenizer.json").read_bytes())
    (model / "config.json").write_text('{"vocab_size": 65537, "eos_token_id": [65536, 1]}')
    (tmp_path / "a.txt").write_text("abc")
    assert tokenize(tmp_path / "a.txt", model=model).returncode == 0
    tokens, sidecar = result_of(tmp_path)
    assert tokens.dtype == numpy.uint32 and tokens.tolist() == [97, 98, 99, 65536]
    assert sidecar["dtype"] == "uint32" and sidecar["eos_token_id"] == 65536


def test_existing_output_is_kept(tokenize, tmp_path):
    (tmp_path / "a.txt").write_text("abc")
    assert tokenize(tmp_path / "a.txt").returncode == 0
    (tmp_path / "a.txt").write_text("other")
    result = tokenize(tmp_path / "a.txt")
    assert result.returncode == 1 and "--force" in result.stderr
    assert len(result_of(tmp_path)[0]) == 4
    assert tokenize("--force", tmp_path / "a.txt").returncode == 0
    assert len(result_of(tmp_path)[0]) == 6


def check_refused(result, tmp_path, *words):
    assert result.returncode == 1, result.stderr
    assert "Traceback" not in result.stderr
    for word in words:
        assert word in result.stderr
    assert not [path for path in tmp_path.iterdir() if "out.npy" in path.name]


def test_invalid_utf8(tokenize, tmp_path):
    bad, good = tmp_path / "bad.txt", tmp_path / "good.txt"
    bad.write_bytes(b"x" * 300000 + b"\xe2\x82" + b"y")
    good.write_text("good")
    check_refused(tokenize(good, bad), tmp_path, str(bad), "byte 300000 ", "--invalid-utf8")
    result = tokenize("--invalid-utf8", "skip", good, bad)
    assert result.returncode == 0 and f"{bad}: not UTF-8, skipped" in result.stderr
    assert bytes(result_of(tmp_path)[0].astype(numpy.uint8)) == b"good\0"
    assert tokenize("--force", "--invalid-utf8", "replace", bad).returncode == 0
    expected = b"x" * 300000 + "\ufffdy".encode() + b"\0"
    assert bytes(result_of(tmp_path)[0].astype(numpy.uint8)) == expected


@pytest.mark.parametrize("content, words", [
    ('{"text": "a"}\n{"text": \n', (":2:", "not JSON")),
    ('{"body": "a"}\n', (":1:", "text", "body", "--field")),
    ('[1]\n', (":1:", "list")),
])
def test_bad_jsonl(tokenize, tmp_path, content, words):
    (tmp_path / "bad.jsonl").write_text(content)
    check_refused(tokenize(tmp_path / "bad.jsonl"), tmp_path, *words)


def test_bad_input(tokenize, byte_model, tmp_path):
    text, empty, folder = tmp_path / "a.txt", tmp_path / "empty.txt", tmp_path / "folder"
    text.write_text("abc")
    empty.write_text("")
    folder.mkdir()
    check_refused(tokenize(tmp_path / "absent.txt"), tmp_path, "absent.txt", "no such file")
    check_refused(tokenize(empty), tmp_path, "no text")
    check_refused(tokenize(folder), tmp_path, str(folder), "--include")
    check_refused(tokenize(text, model=folder), tmp_path, "tokenizer.json", "not found")
    (folder / "tokenizer.json").write_text("{}")
    check_refused(tokenize(text, model=folder), tmp_path, "tokenizer.json", "not a tokenizer")
    (folder / "tokenizer.json").write_bytes((byte_model / "tokenizer.json").read_bytes())
    check_refused(tokenize(text, model=folder), tmp_path, "eos_token_id", "--no-eos")
    (folder / "config.json").write_text('{"vocab_size": 98, "eos_token_id": 0}')
    check_refused(tokenize(text, model=folder), tmp_path, "token 99", "98")


def test_wrong_usage(tokenize, run_tool, byte_model, tmp_path):
    assert tokenize().returncode == 2
    assert tokenize("--limit-tokens", 0, tmp_path).returncode == 2
    assert run_tool("tokenize.py", "--model", byte_model, "--out", tmp_path / "out.bin", tmp_path).returncode == 2
