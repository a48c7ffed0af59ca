"""Lines from pieces, and a file that grows."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from counterfoil.core.errors import IntegrityFault, StoreUnavailable
from counterfoil.core.lines import FileTail, Line, LineFramer

quick = settings(database=None, deadline=None, max_examples=100)


def frame(framer, data, size):
    lines = []
    for start in range(0, len(data), size):
        lines += framer.feed(data[start : start + size])
    return lines


@quick
@given(
    st.lists(st.binary(max_size=20).map(lambda b: b.replace(b"\n", b"")), max_size=8),
    st.integers(1, 40),
    st.integers(1, 25),
)
def test_pieces_of_any_size_give_the_same_lines(lines, size, limit):
    data = b"".join(line + b"\n" for line in lines)
    expected = []
    for line in lines:
        content = line.removesuffix(b"\r")
        expected.append(Line(content[:limit], len(content) > limit))
    framer = LineFramer(limit)
    assert frame(framer, data, size) == expected
    assert framer.rest() is None
    assert framer.consumed == len(data)


def test_line_ends_of_both_kinds_are_taken_off_and_all_else_is_content():
    framer = LineFramer()
    lines = framer.feed(b"a\r\nb\rc\n\0\xff\xfe\n\n\x1b[0m\n")
    assert [line.data for line in lines] == [b"a", b"b\rc", b"\0\xff\xfe", b"", b"\x1b[0m"]


def test_a_line_end_split_between_two_pieces_is_one_end():
    framer = LineFramer(3)
    assert framer.feed(b"abc\r") == []
    assert framer.feed(b"\nd\n") == [Line(b"abc", False), Line(b"d", False)]


def test_a_line_of_fifty_megabytes_is_given_once_and_memory_stays_bounded():
    framer = LineFramer(1_000)
    piece = b"x" * 65_536
    given_lines = framer.feed(piece)
    for _ in range(800):
        given_lines += framer.feed(piece)
        assert len(framer._held) <= 1_002
    given_lines += framer.feed(b"\nnext\n")
    assert given_lines == [Line(b"x" * 1_000, True), Line(b"next", False)]


def test_the_torn_last_line_is_the_rest():
    framer = LineFramer(10)
    assert framer.feed(b"whole\ntorn") == [Line(b"whole", False)]
    assert framer.rest() == Line(b"torn", False)
    assert framer.rest() is None


def test_the_rest_of_a_line_that_was_given_cut_is_nothing():
    framer = LineFramer(2)
    assert framer.feed(b"abcdef") == [Line(b"ab", True)]
    assert framer.rest() is None


def test_reading_on_from_the_consumed_offset_loses_no_line():
    data = b"one\ntwo\nthr"
    framer = LineFramer()
    first = framer.feed(data)
    again = LineFramer().feed(data[framer.consumed :] + b"ee\n")
    assert [line.data for line in first + again] == [b"one", b"two", b"three"]


def test_a_tail_waits_for_a_file_that_is_not_there_yet(tmp_path):
    tail = FileTail(tmp_path / "spool")
    assert tail.read() == b""
    (tmp_path / "spool").write_bytes(b"abc")
    assert tail.read() == b"abc"
    assert tail.read() == b""


def test_a_tail_reads_only_what_was_appended_in_bounded_chunks(tmp_path):
    path = tmp_path / "spool"
    path.write_bytes(b"0123456789")
    tail = FileTail(path, offset=4)
    assert list(tail.chunks(limit=4)) == [b"4567", b"89"]
    with path.open("ab") as file:
        file.write(b"new")
    assert tail.read() == b"new"
    assert tail.offset == 13


def test_a_file_that_became_shorter_is_a_fault(tmp_path):
    path = tmp_path / "spool"
    path.write_bytes(b"ab")
    with pytest.raises(IntegrityFault, match=r"spool has 2 bytes, but 5"):
        FileTail(path, offset=5).read()


def test_what_cannot_be_read_is_told_with_its_path(tmp_path):
    with pytest.raises(StoreUnavailable, match=tmp_path.name):
        FileTail(tmp_path).read()
