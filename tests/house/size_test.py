"""No file longer than 400 lines, no C++ function longer than 60 (a kernel: 120)."""

import re
import tempfile
import unittest
from pathlib import Path

from source_tree import CPP_SUFFIXES, ROOT, blank_comments_and_literals, source_files

FILE_LINES = 400
FUNCTION_LINES = 60
KERNEL_LINES = 120

# What opens a block that holds declarations, so that functions may lie in it.
HOLDER = re.compile(
    r"\s*((public|private|protected)\s*:\s*)?(template\s*<.*>\s*)?(inline\s+)?(namespace|class|struct|union|extern)\b",
    re.DOTALL,
)
TABLE = re.compile(r"^\s*enum\b|=\s*$")
PREPROCESSOR = re.compile(r"^[ \t]*#(?:[^\n]*\\\n)*[^\n]*", re.MULTILINE)


def kind_of_block(head):
    """`head` is the text between the last `;`, `{` or `}` and an opening brace outside of functions."""
    if HOLDER.match(head):
        return "holder"
    return "function" if ")" in head and not TABLE.search(head) else "table"


def functions_of(text):
    """(line of the opening brace, lines between the braces, head) of each function, lambdas inside not counted apart."""
    code = blank_comments_and_literals(text)
    code = PREPROCESSOR.sub(lambda m: re.sub(r"[^\n]", " ", m.group()), code)
    open_blocks = []  # (position, kind, head) of holders, and of the outermost function or table in them
    depth = 0  # of braces inside that function or table
    last = 0
    for match in re.finditer(r"[;{}]", code):
        head = code[last : match.start()]
        last = match.end()
        if match.group() == "{" and depth > 0:
            depth += 1
        elif match.group() == "{":
            kind = kind_of_block(head)
            depth = 0 if kind == "holder" else 1
            open_blocks.append((match.start(), kind, head))
        elif match.group() == "}" and depth > 1:
            depth -= 1
        elif match.group() == "}" and open_blocks:
            depth = 0
            begin, kind, head = open_blocks.pop()
            if kind == "function":
                line = code.count("\n", 0, begin) + 1
                yield line, max(code.count("\n", begin, match.start()) - 1, 0), " ".join(head.split())


def faults_of_file(root, path):
    text = (root / path).read_text(encoding="utf-8")
    lines = text.count("\n")
    faults = [f"{path}: {lines} lines, {FILE_LINES} at most"] if lines > FILE_LINES else []
    if path.suffix in CPP_SUFFIXES:
        for line, length, head in functions_of(text):
            allowed = KERNEL_LINES if "__global__" in head else FUNCTION_LINES
            if length > allowed:
                faults.append(f"{path}:{line}: {length} lines in `{head[-80:]}`, {allowed} at most")
    return faults


def faults_of_tree(root):
    return [fault for path in source_files(root) for fault in faults_of_file(root, path)]


class TheTree(unittest.TestCase):
    def test_nothing_is_too_long(self):
        self.assertGreater(len(source_files(ROOT)), 0)
        faults = faults_of_tree(ROOT)
        self.assertFalse(faults, "\n" + "\n".join(faults))


BODY = '    call("}", \'{\', 1\'000, {1, 2});  // }\n'
FUNCTIONS = [
    "int f(int a) {\n@}\n",
    "namespace a::b {\nnamespace {\ntemplate <class T>\nvoid f(std::vector<T> a,\n       int b = 0) noexcept {\n@}\n}\n}\n",
    "struct S {\n    S(int a) : a_(a) {\n@    }\n    int a_ = 0;\n};\n",
    "class S final : public Base {\n  public:\n    int f() const override {\n        if (a) {\n@        }\n    }\n};\n",
    'TEST_CASE("a {") {\n    const auto g = [&](int x) {\n@    };\n}\n',
    "struct alignas(8) S {\n    struct T {\n        void f(int a) {\n@        }\n    };\n};\n",
    "#if A\nvoid f() {\n@}\n#endif\n",
]


class TheCheck(unittest.TestCase):
    def faults(self, name, text):
        with tempfile.TemporaryDirectory() as folder:
            (Path(folder) / name).write_text(text)
            return faults_of_tree(Path(folder))

    def test_long_functions_are_found_in_every_form(self):
        for form in FUNCTIONS:
            self.assertEqual([], self.faults("a.cpp", form.replace("@", BODY * (FUNCTION_LINES - 2))), form)
            self.assertEqual(1, len(self.faults("a.cpp", form.replace("@", BODY * (FUNCTION_LINES + 1)))), form)

    def test_a_kernel_may_be_longer(self):
        kernel = "__global__ void f(int a) {\n@}\n"
        self.assertEqual([], self.faults("a.cu", kernel.replace("@", BODY * KERNEL_LINES)))
        self.assertEqual(1, len(self.faults("a.cu", kernel.replace("@", BODY * (KERNEL_LINES + 1)))))

    def test_tables_and_declarations_are_no_functions(self):
        table = "const Row rows[] = {\n" + "    {f(1), 2},\n" * 100 + "};\nint after(int);\n"
        declarations = "struct alignas(8) S {\n" + "    int f(int a);\n" * 100 + "};\nenum class E {\n" + "    kA,\n" * 100 + "};\n"
        self.assertEqual([], self.faults("a.cpp", table + declarations))

    def test_long_files_are_found(self):
        self.assertEqual([], self.faults("a.py", "x = 1\n" * FILE_LINES))
        self.assertEqual(1, len(self.faults("a.py", "x = 1\n" * (FILE_LINES + 1))))


if __name__ == "__main__":
    unittest.main()
