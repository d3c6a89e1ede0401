"""Bad input ends in a clear error, soon: deep nesting, huge numbers, endless macros, includes."""

from __future__ import annotations

import contextlib
import os
import time
import tracemalloc
from collections.abc import Callable
from pathlib import Path

import pytest

import p4compiler
from p4compiler.sources import MAX_FILE_BYTES
from p4compiler.unique_names import UniqueNames
from tests.p4compiler.compiled import around


def message_of(compile_: Callable[[], object]) -> str:
    with pytest.raises(p4compiler.P4Error) as caught:
        compile_()
    return next(item.message for item in caught.value.diagnostics if item.severity == "error")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (f"const bit<8> a = {'(' * 5000}1{')' * 5000};", "nested more than 200 deep"),
        (f"const bit<8> a = {'-' * 5000}1;", "nested more than 200 deep"),
        (f"const bit<8> a = {'1 + ' * 5000}1;", "more than 500 operands in one expression"),
        (f"const bit<8> a = b{'.c' * 5000};", "more than 500 members and calls after each other"),
        (f"void f() {{ {'{' * 5000} {'}' * 5000} }}", "nested more than 200 deep"),
        (f"void f(in bool x) {{ {'if (x) ' * 5000} return; }}", "nested more than 200 deep"),
        (f"const bit<8> a = {'{' * 5000}", "nested more than 200 deep"),
        (f"typedef {'tuple<' * 5000}bit<8>{'>' * 5000} t;", "nested more than 200 deep"),
        (f"const bit<8> a = {'9' * 5000};", "a number of more than 1000 digits"),
        ("const bit<8> a = 99999999w1;", "a number of more than 65536 bits"),
        ("const bit<100000> a = 1;", "bit<100000>: a width is from 0 to 65536"),
        ("const int a = 1 << 100000;", "a shift by more than 65536 bits in a constant"),
        ("header h { bit<8> x; } struct s { h[100000] y; }", "a stack has from 1 to 4096 elements, not 100000"),
        ("header h { bit<60000> x; } struct s { h[4000] y; }", "struct 's' has more than 1,048,576 bits"),
        ('const string a = "', "string without end"),
        ("/* no end", "comment without end"),
        ("const bit<8> \N{GREEK SMALL LETTER ALPHA} = 1;",
         "character '\N{GREEK SMALL LETTER ALPHA}' is not part of the language"),
        ("\x00", "character '\\x00' is not part of the language"),
        ("#if 1\n", "#if without #endif"),
        ("#if (1\n#endif\n", "')' expected in a condition"),
        (f"#if {'(' * 5000}1\n#endif\n", "a condition nested too deeply"),
        ("#if 1 << 100000000000\n#endif\nconst bit<8> a = b;", "'b' is not declared"),
        ("#if 10UL - 1L == 9 && u == 0\n#else\n#error no\n#endif\nconst bit<8> a = b;", "'b' is not declared"),
        (";" * 300_001, "a program of more than 300,000 tokens"),
        ("#include <core.p4>\nparser P(packet_in p) { value_set<bit<8>>(1 << 100) s; state start { } }",
         "a value set of 1267650600228229401496703205376 members; a size is from 0 to 2,147,483,647"),
        ("#include <core.p4", "'>' expected after the name of a file"),
        ("#define A(x) x\nconst bit<8> a = A(1;\n", "the arguments of macro 'A' have no ')'"),
    ],
)  # fmt: skip
def test_a_text_is_refused(text: str, message: str) -> None:
    assert message_of(lambda: p4compiler.compile_text(text)) == message


def test_macros_that_grow_without_end_are_refused() -> None:
    lines = ["#define A0 1 1 1 1 1 1 1 1 1 1", *(f"#define A{n} {f'A{n - 1} ' * 10}" for n in range(1, 12)), "A11"]
    message = message_of(lambda: p4compiler.compile_text("\n".join(lines)))
    assert message == "the macros of this program expand to more than 500,000 tokens"


@pytest.mark.parametrize(
    "text",
    [
        f'#define s(x) #x\n#define g(x) s(x)\nconst string a = {"g(" * 40}"\\\\"{")" * 40};',  # doubles the string
        f"#define c(a) a##a\n#define d(x) c(x)\nconst bit<8> {'d(' * 40}abc{')' * 40} = 1;",  # doubles the name
        f"#define f(x) x\nconst bit<8> a = {'f(' * 20_000}1{')' * 20_000};",  # reads each argument at each level
        "".join(f"#define a{n} a{n + 1}\n" for n in range(20_000)) + "const bit<8> a = a0;",  # hides each name
    ],
    ids=("strings", "names", "arguments", "chain"),
)
def test_macros_whose_work_doubles_are_refused(text: str) -> None:
    wanted = "the macros of this program are nested too deeply, or make names too long"
    assert message_of(lambda: p4compiler.compile_text(text)) == wanted


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("struct t0 { bit<8> a; }\n" + "".join(f"struct t{n + 1} {{ t{n} a; t{n} b; }}\n" for n in range(40)),
         "struct 't13' has more than 20,000 parts"),
        ("typedef bit<8> t0;\n" + "".join(f"typedef tuple<t{n}, t{n}> t{n + 1};\n" for n in range(40)),
         "a type of more than 20,000 parts"),
        ("struct p<T> { T a; T b; }\ntypedef bit<8> t0;\n"
         + "".join(f"typedef p<t{n}> t{n + 1};\n" for n in range(40)), "a type of more than 20,000 parts"),
        ("const int a = 1 << 60000;\nheader h { bit<8> x; }\nstruct s { h[a] y; }",
         "a stack has from 1 to 4096 elements, not of 60,001 bits"),
    ],
    ids=("structs", "tuples", "generics", "number"),
)  # fmt: skip
def test_types_that_double_are_refused(text: str, message: str) -> None:
    assert message_of(lambda: p4compiler.compile_text(text)) == message


@pytest.mark.parametrize(
    "text",
    [
        f"error {{ {', '.join(f'e{n}' for n in range(40_000))} }}",
        around("all_t x; all_t y; x = y;",
               declarations=f"struct all_t {{ {''.join(f'bit<8> f{n}; ' for n in range(9_000))} }}"),
        around(" ".join(f"if (hdr.h.a == {n % 256}) {{ hdr.h.b = {n % 256}; }}" for n in range(2_000))),  # on one line
    ],
    ids=("errors", "fields", "statements"),
)  # fmt: skip
def test_work_grows_with_the_size_of_the_program(text: str) -> None:
    start = time.process_time()
    with contextlib.suppress(p4compiler.P4Error):  # one has no 'main'
        p4compiler.compile_text(text)
    assert time.process_time() - start < 8  # it is about 1 s; as the square of the size it was 10 to 20 s


def test_a_name_that_is_taken_gets_the_next_number() -> None:
    names = UniqueNames("b", "a_1")
    assert [names.take(name) for name in "aaabb"] == ["a", "a_0", "a_2", "b_0", "b_1"]
    names.add("a_3")
    assert names.take("a") == "a_4"


def test_long_strings_and_comments_take_no_more_memory_than_their_text() -> None:
    long = "x" * 4_000_000
    tracemalloc.start()
    message_of(lambda: p4compiler.compile_text(f'// {long}\nconst bit<8> a = "{long}";'))
    assert tracemalloc.get_traced_memory()[1] < 100_000_000
    tracemalloc.stop()


def test_a_wrong_name_among_many_is_compared_with_few() -> None:
    names = "\n".join(f"const bit<8> name{n} = 1;" for n in range(5_000))
    uses = "\n".join(f"const bit<8> other{n} = nmae{n};" for n in range(15))
    with pytest.raises(p4compiler.P4Error) as caught:
        p4compiler.compile_text(f"{names}\n{uses}")
    assert caught.value.diagnostics[0].message == "'nmae0' is not declared; did you mean 'name0'?"


def test_a_byte_order_mark_and_carriage_returns_are_no_part_of_the_program() -> None:
    assert message_of(lambda: p4compiler.compile_text("\ufeffconst bit<8> a = b;\r\n")) == "'b' is not declared"


def test_a_comment_goes_on_after_a_backslash_as_in_c() -> None:
    text = "// one \\\nconst bit<8> a = b;\n// two \\\r\nconst bit<8> c = d;\nconst bit<8> e = f; // \\"
    with pytest.raises(p4compiler.P4Error) as caught:
        p4compiler.compile_text(text)
    assert [item.message for item in caught.value.diagnostics] == ["'f' is not declared"]


def test_a_name_goes_on_after_a_backslash_as_in_c() -> None:
    text = "#define LONG_\\\nNAME \\\r\n missing\nconst bit<8> a = LONG\\\r\n_NA\\\nME;\n"
    assert message_of(lambda: p4compiler.compile_text(text)) == "'missing' is not declared"


def test_conditions_in_a_string_have_an_end() -> None:
    text = 'const string a = "\n#if 1\n";\n'
    assert message_of(lambda: p4compiler.compile_text(text)) == "#if without #endif in the string that it is in"


def test_an_argument_that_is_empty_leaves_what_is_before_it_as_it_is() -> None:
    text = "#define M(x) const bit<8> x ## b = c;\nM()\n"
    assert message_of(lambda: p4compiler.compile_text(text)) == "'c' is not declared"


def test_a_wrong_condition_is_one_error() -> None:
    with pytest.raises(p4compiler.P4Error) as caught:
        p4compiler.compile_text("#if (\nx\n#else\ny\n#endif\n")
    assert [item.message for item in caught.value.diagnostics] == ["a condition that ends too early"]


def test_a_macro_of_itself_ends() -> None:
    assert message_of(lambda: p4compiler.compile_text("#define A A\nconst bit<8> x = A;")) == "'A' is not declared"


def test_calls_that_double_are_refused() -> None:
    functions = ["void f0(inout bit<8> x) { x = x + 1; }"]
    functions += [f"void f{n}(inout bit<8> x) {{ f{n - 1}(x); f{n - 1}(x); }}" for n in range(1, 25)]
    text = around("f24(hdr.h.a);", declarations="\n".join(functions))
    assert (
        message_of(lambda: p4compiler.compile_text(text))
        == "the program has more than 50,000 statements after inlining"
    )


def test_instances_that_double_are_refused() -> None:
    controls = ["control C0(inout bit<8> x) { apply { x = x + 1; } }"]
    controls += [
        f"control C{n}(inout bit<8> x) {{ C{n - 1}() p; C{n - 1}() q; apply {{ p.apply(x); q.apply(x); }} }}"
        for n in range(1, 25)
    ]
    text = around("c.apply(hdr.h.a);", local="C24() c;", controls="\n".join(controls))
    assert message_of(lambda: p4compiler.compile_text(text)) == "the program has more than 20,000 instances"


def test_a_file_that_includes_itself(tmp_path: Path) -> None:
    path = tmp_path / "a.p4"
    path.write_text('#include "a.p4"\n')
    message = message_of(lambda: p4compiler.compile(path))
    assert message == "files that include each other more than 64 deep; is a guard missing?"


def test_includes_of_a_local_program(tmp_path: Path) -> None:
    (tmp_path / "sub").mkdir()
    (tmp_path / "inc").mkdir()
    (tmp_path / "a.p4").write_text(
        '#include "sub/b.p4"\n#include <d.p4>\nconst bit<8> x = B + C + D;\nconst bit<8> y = z;'
    )
    (tmp_path / "sub" / "b.p4").write_text('#define B 1\n#include "c.p4"\n')
    (tmp_path / "sub" / "c.p4").write_text("#define C 2\n")
    (tmp_path / "inc" / "d.p4").write_text("#define D 3\n")
    message = message_of(lambda: p4compiler.compile(tmp_path / "a.p4", include=[tmp_path / "inc"]))
    assert message == "'z' is not declared"


def test_an_include_that_is_not_found_names_the_folders_that_do_not_exist(tmp_path: Path) -> None:
    path = tmp_path / "a.p4"
    path.write_text("#include <b.p4>\n")
    none, more = tmp_path / "none", [tmp_path / f"none{n}" for n in range(5)]
    for folders, why in (
        ([tmp_path], "folders of include files are given by -I"),
        ([none, tmp_path, none], f"of the folders given by -I these do not exist: {none}"),
        ([none, *more], f"these do not exist: {', '.join(map(str, [none, *more[:4]]))} and 1 more"),
    ):
        message = message_of(lambda: p4compiler.compile(path, include=folders))  # noqa: B023 (called at once)
        assert message.startswith("'b.p4' is not found; ")
        assert message.endswith(why)
    path.write_text(around(""))
    assert p4compiler.compile(path, include=[none]).warnings == ()


def test_what_is_no_regular_text_file_is_refused(tmp_path: Path) -> None:
    fifo, large, binary = tmp_path / "fifo.p4", tmp_path / "large.p4", tmp_path / "binary.p4"
    os.mkfifo(fifo)
    with large.open("wb") as file:
        file.truncate(MAX_FILE_BYTES + 1)
    binary.write_bytes(b"\xff\xfe")
    program = tmp_path / "a.p4"
    for path, why in ((fifo, "is not a regular file"), (large, "is larger than 8 MiB"), (binary, "is not UTF-8 text")):
        program.write_text(f'#include "{path.name}"\n')
        assert why in message_of(lambda: p4compiler.compile(program))
        assert why in message_of(lambda: p4compiler.compile(path))  # noqa: B023 (called at once)
    assert "cannot be read: No such file" in message_of(lambda: p4compiler.compile(tmp_path / "none.p4"))
    assert "cannot be read: Is a directory" in message_of(lambda: p4compiler.compile(tmp_path))


def test_a_program_from_elsewhere_includes_only_the_standard_files(tmp_path: Path) -> None:
    (tmp_path / "secret.p4").write_text("secret\n")
    for name in (f'"{tmp_path}/secret.p4"', f"<{tmp_path}/secret.p4>", '"/etc/passwd"', '"../core.p4"'):
        message = message_of(lambda: p4compiler.compile_text(f"#include {name}\n"))  # noqa: B023 (called at once)
        assert message.endswith("cannot be included here: only core.p4 and v1model.p4 can")
        assert "secret\n" not in message
    assert p4compiler.compile_text(around("")).json


def test_after_many_errors_the_rest_is_not_checked() -> None:
    text = "\n".join(f"const bit<8> a{n} = b{n};" for n in range(1000))
    with pytest.raises(p4compiler.P4Error) as caught:
        p4compiler.compile_text(text)
    assert len(caught.value.diagnostics) == 21
