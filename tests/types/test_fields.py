from __future__ import annotations

import itertools
import pickle
from collections import Counter

import numpy as np
import pytest
from group_zoo import group, random_orthogonal
from hypothesis import given, settings
from hypothesis import strategies as some

import steerable as st

D4 = st.dihedral(4)
GROUPS = ("C1", "C4", "D4", "D6", "Q8", "S4", "O_h", "C4xC2")
quiet = settings(deadline=None, database=None, derandomize=True, max_examples=60)
a_group = some.sampled_from(GROUPS).map(group)


@some.composite
def a_text(draw: some.DrawFn, g: st.FiniteGroup, depth: int = 3) -> tuple[str, Counter[str]]:
    """A text of the grammar with the capsules that it stands for, in the order in which they are first named."""
    text, total = [], Counter[str]()
    for _ in range(draw(some.integers(1, 3))):
        copies = draw(some.integers(0, 4))
        if depth and draw(some.booleans()):
            inner, counts = draw(a_text(g, depth - 1))
            inner = f"({inner})"
        else:
            inner = draw(some.sampled_from(list(g.capsules)))
            counts = Counter({inner: 1})
        space = draw(some.sampled_from(["", " ", "  "]))
        text.append(inner if copies == 1 and draw(some.booleans()) else f"{copies}{space}*{space}{inner}")
        for name, n in counts.items():
            total[name] += copies * n
    return draw(some.sampled_from([" + ", "+"])).join(text), total


@some.composite
def a_type(draw: some.DrawFn, g: st.FiniteGroup) -> st.FieldType:
    return st.FieldType(g, draw(a_text(g))[0])


def a_pair(g: st.FiniteGroup) -> some.SearchStrategy[tuple[st.FieldType, st.FieldType]]:
    return some.tuples(a_type(g), a_type(g))


@quiet
@given(a_group.flatmap(lambda g: some.tuples(some.just(g), a_text(g))))
def test_text_is_read_as_sums_and_multiples(drawn) -> None:
    g, (text, counts) = drawn
    x = st.FieldType(g, text)
    # Two names may stand for the same matrices (Capsule equality), so that capsules are counted, not names.
    expected: Counter[st.Capsule] = Counter()
    for name, n in counts.items():
        expected[g.capsule(name)] += n
    assert dict(x.terms) == {capsule: n for capsule, n in expected.items() if n}
    assert x.blocks == x.terms
    assert x.channels == sum(n * g.capsule(name).dim for name, n in counts.items())


@quiet
@given(a_group.flatmap(a_type))
def test_parse_of_str_is_the_same(x: st.FieldType) -> None:
    again = st.FieldType(x.group, str(x))
    assert again == x
    assert hash(again) == hash(x)
    assert str(again) == str(x)
    assert pickle.loads(pickle.dumps(x)) == x


@quiet
@given(a_group.flatmap(a_type))
def test_channels_slices_and_blocks_fit_together(x: st.FieldType) -> None:
    assert len(x) == len(x.capsules) == len(x.slices)
    assert x.channels == sum(c.dim for c in x.capsules) == x.representation.dim
    ends = [0, *(s.stop for s in x.slices)]
    assert [(s.start, s.stop) for s in x.slices] == list(itertools.pairwise(ends))
    assert ends[-1] == x.channels
    for g in x.group.generators:
        whole = x.representation(g)
        for capsule, where in zip(x, x.slices, strict=True):
            assert np.array_equal(whole[where, where], capsule.representation(g))
            whole[where, where] = 0
        assert not whole.any()
    assert [s.stop - s.start for s in x.term_slices] == [c.dim * n for c, n in x.terms]


@quiet
@given(a_group.flatmap(a_type))
def test_equal_capsules_are_adjacent(x: st.FieldType) -> None:
    kinds = [capsule for capsule, _ in x.terms]
    assert len(set(kinds)) == len(kinds)
    assert list(x.capsules) == [capsule for capsule, n in x.terms for _ in range(n)]
    assert all(n > 0 for _, n in x.terms)


@quiet
@given(a_group.flatmap(a_pair))
def test_sums_and_multiples(pair: tuple[st.FieldType, st.FieldType]) -> None:
    x, y = pair
    assert (x + y).channels == x.channels + y.channels
    assert Counter((x + y).capsules) == Counter(x.capsules) + Counter(y.capsules)
    assert (x + y).type == tuple(a + b for a, b in zip(x.type, y.type, strict=True))
    assert 2 * x == x * 2 == x + x
    assert 0 * x == st.FieldType(x.group, "0")
    assert 3 * (x + y) == 3 * x + 3 * y
    assert x.type == x.representation.type
    assert np.allclose(x.character, x.representation.character)


@quiet
@given(a_group.flatmap(a_type), some.data())
def test_indexing(x: st.FieldType, data: some.DataObject) -> None:
    cut = data.draw(some.integers(0, len(x)))
    assert x[:cut] + x[cut:] == x
    assert x[:cut].capsules == x.capsules[:cut]
    assert [x[i] for i in range(len(x))] == list(x)


def test_the_paper_s_stream() -> None:
    stream = st.FieldType(D4, "14*(regular + qm + qmr2 + qmr3)")
    assert stream.channels == 280
    assert str(stream) == "14*regular + 14*qm + 14*qmr2 + 14*qmr3"
    assert stream.type == (56, 14, 42, 28, 70)
    assert repr(stream) == "FieldType(D4, '14*regular + 14*qm + 14*qmr2 + 14*qmr3')"


def test_equal_types_from_different_descriptions() -> None:
    E, A1 = D4.capsule("E"), D4.capsule("A1")
    expected = st.FieldType(D4, "2*E + A1")
    for spec in ([E, E, A1], [(2, E), (1, A1)], [E, A1, E], "E + A1 + E", "2*(E) + trivial", expected):
        assert st.FieldType(D4, spec) == expected
    assert st.FieldType(D4, E) == st.FieldType(D4, D4.irrep("E")) == st.FieldType(D4, "E")
    assert st.FieldType(D4, "E + A1") != st.FieldType(D4, "A1 + E")  # channels in another order
    assert st.FieldType(D4, "A1") != st.FieldType(st.dihedral(2), "A1")
    assert st.FieldType(D4, "0").channels == 0


def test_own_capsules_are_named_in_text() -> None:
    mine = st.Capsule(D4.regular.change_basis(random_orthogonal(8)), "mine")
    x = st.FieldType(D4, "2*mine + E", capsules=[mine])
    assert x.channels == 18
    assert st.FieldType(D4, str(x), capsules=[mine]) == x


def test_act_is_part_of_the_grammar() -> None:
    """What CReLU makes of a capsule has a text too, whether or not the catalogue knows it."""
    assert st.FieldType(D4, "2*act(A2)") == st.FieldType(D4, "2*r")
    assert st.FieldType(D4, "act(A1 + A2)") == st.FieldType(D4, "2*A1 + r")
    for g in map(group, ("D8", "O", "Q8", "S4")):
        for capsule in g.capsules.values():
            if capsule.admits("concatenated"):
                x = st.FieldType(g, capsule.after_concatenation())
                assert st.FieldType(g, str(x)) == x


@pytest.mark.parametrize(
    ("text", "caret", "message"),
    [
        ("", 0, "the text is empty; write capsules such as"),
        ("   ", 0, "the text is empty"),
        ("2*Q + E", 2, "unknown capsule `Q` of D4"),
        ("regular + qmr4", 10, "unknown capsule `qmr4` of D4. Did you mean `qmr`"),
        ("2 E", 2, "expected `\\*` after the multiple 2, as in `2\\*E`"),
        ("2*(E + A1", 9, "expected `\\)` for the `\\(` at position 3, got the end"),
        ("E A1", 2, "expected `\\+` or the end, got `A1`"),
        ("E + ", 3, "expected a capsule's name, a multiple or `\\(`, got the end"),
        ("E + )", 4, "expected a capsule's name, .* got `\\)`"),
        ("E)", 1, "expected `\\+` or the end, got `\\)`"),
        ("-1*E", 0, "a multiple must be a whole number ≥ 0; types cannot be subtracted"),
        ("A1 + 2*-E", 7, "a multiple must be a whole number ≥ 0"),
        ("1.5*E", 1, "expected `\\*` after the multiple 1"),
        ("E & A1", 2, "expected `\\+` or the end, got `&`"),
        ("1234567890*E", 0, "a multiple has at most 9 digits"),
        ("(" * 60 + "E" + ")" * 60, 51, "more than 50 nested parentheses"),
        ("E +\n\tB7", 5, "unknown capsule `B7`"),
        ("A1 + E2[D8, 3]", 5, "D4 sees 2 parts of `E2` of D8; got number 3"),
        ("E2[]", 0, "in brackets stands the name of a larger group, as in `E2\\[D8\\]` or"),
        ("E3[C8]", 0, "D4 is not recognised as a subgroup of C8"),
        ("E + E3[Q]", 4, "there is no group called 'Q'"),
        ("E9[D8]", 0, "unknown capsule `E9` of D8. Did you mean"),
        ("[D8]", 0, "expected a capsule's name, a multiple or `\\(`, got `\\[D8\\]`"),
        ("(E)[D8]", 3, "expected `\\+` or the end, got `\\[D8\\]`"),
    ],
)
def test_a_caret_stands_where_the_text_is_wrong(text: str, caret: int, message: str) -> None:
    with pytest.raises(ValueError, match="cannot read this field type of D4: " + message) as caught:
        st.FieldType(D4, text)
    _, shown, pointer = str(caught.value).splitlines()
    assert shown == "  " + text.replace("\n", " ").replace("\t", " ")
    assert pointer == "  " + " " * caret + "^"


E = st.FieldType(D4, "E")


@pytest.mark.parametrize(
    ("build", "error", "message"),
    [
        (lambda: -1 * E, ValueError, "repeated 0 or more times; got -1 times `E`"),
        (lambda: st.FieldType(D4, [(-2, D4.capsule("E"))]), ValueError, "whole number ≥ 0, got -2 for `E`"),
        (lambda: st.FieldType(D4, [(1.5, D4.capsule("E"))]), ValueError, "whole number ≥ 0, got 1.5"),
        (lambda: 1.5 * E, TypeError, "unsupported operand"),
        (lambda: E + 3, TypeError, "unsupported operand"),
        (
            lambda: st.FieldType(4, "E"),
            TypeError,
            "is its group, such as dihedral\\(4\\), or the group's name, such as 'D4'; got int",
        ),
        (lambda: st.FieldType(D4, 3), TypeError, "text such as '2\\*regular \\+ E', .* got int"),
        (lambda: st.FieldType(D4, [3]), TypeError, "expected a Capsule or a Representation with a name, got int"),
        (lambda: st.FieldType(D4, [st.cyclic(4).capsule("E")]), TypeError, "`E` belongs to C4, .* to D4. Restrict"),
        (lambda: E + st.FieldType(st.cyclic(4), "E"), TypeError, "a field type of D4 and one of C4: different groups"),
        (lambda: st.FieldType(D4, "E", capsules=["x"]), TypeError, "takes Capsule objects, got str"),
        (
            lambda: st.FieldType(D4, "x", capsules=[st.Capsule(D4.irrep(n), "x") for n in ("E", "A1")]),
            ValueError,
            "two different capsules of D4 are called `x`",
        ),
        (lambda: st.FieldType(D4, D4.irrep("E") + D4.regular), ValueError, "a capsule needs a name"),
        (lambda: st.parameter_cost(E, st.FieldType(st.cyclic(4), "E")), TypeError, "`E` of D4 and `E` of C4"),
    ],
)
def test_mistakes_are_refused(build, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        build()


def test_two_capsules_of_one_name_are_refused() -> None:
    turned = st.Capsule(D4.irrep("E").change_basis([[0.6, -0.8], [0.8, 0.6]]), "E")
    with pytest.raises(ValueError, match="two different capsules of D4 are called `E`; rename one of them"):
        st.FieldType(D4, [turned, D4.capsule("E")])


def test_capsules_may_be_named_in_a_list() -> None:
    assert st.FieldType(D4, [(2, "E"), "regular"]) == st.FieldType(D4, "2*E + regular")
