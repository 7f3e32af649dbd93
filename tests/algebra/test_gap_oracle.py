"""Character degrees, Frobenius–Schur indicators and numbers of subgroups, against GAP.

``gap_characters.jsonl`` holds what GAP 4.12.1 (Debian's packages ``gap-core``, ``gap-polycyclic`` and their
dependencies) printed, unchanged:

    python tests/algebra/test_gap_oracle.py > recipe.g && gap -q recipe.g > tests/algebra/gap_characters.jsonl
"""

from __future__ import annotations

import json
import sys
from collections import Counter
from pathlib import Path

import pytest
from group_zoo import ALL_GROUPS, NOT_FAITHFUL, group

RECIPE = r"""
SizeScreen([4000, 24]);;

Summarise := function(name, G)
  local table, subgroups;
  table := CharacterTable(G);
  subgroups := ConjugacyClassesSubgroups(G);
  Print("{\"name\": \"", name, "\", \"order\": ", Size(G),
    ", \"degrees\": ", List(Irr(table), DegreeOfCharacter),
    ", \"indicators\": ", Indicator(table, Irr(table), 2),
    ", \"classes\": ", NrConjugacyClasses(G),
    ", \"subgroups\": ", Sum(subgroups, Size),
    ", \"subgroup_classes\": ", Length(subgroups), "}\n");
end;;

for n in [1 .. 12] do Summarise(Concatenation("C", String(n)), CyclicGroup(n)); od;
Summarise("D1", CyclicGroup(2));
for n in [2 .. 8] do Summarise(Concatenation("D", String(n)), DihedralGroup(2 * n)); od;
Summarise("D64", DihedralGroup(128));
Summarise("Q8", QuaternionGroup(8));
Summarise("A4", AlternatingGroup(4));
Summarise("S4", SymmetricGroup(4));
Summarise("A5", AlternatingGroup(5));
Summarise("S5", SymmetricGroup(5));
half := [[-1, 0, 0], [0, -1, 0], [0, 0, 1]];; mirror := [[0, 1, 0], [1, 0, 0], [0, 0, 1]];;
three := [[0, 0, 1], [1, 0, 0], [0, 1, 0]];;
Summarise("T", Group(half, three));
Summarise("T_d", Group(half, three, mirror));
r := [[0, -1, 0], [1, 0, 0], [0, 0, 1]];; s := [[1, 0, 0], [0, 0, -1], [0, 1, 0]];;
Summarise("O", Group(r, s));
Summarise("O_h", Group(r, s, -r^0));
t := (1 + Sqrt(5)) / 2;;
five := [[1, -t, t - 1], [t, t - 1, -1], [t - 1, 1, t]] / 2;;
Summarise("I", Group(five, three));
Summarise("I_h", Group(five, three, -five^0));
Summarise("C4xC2", DirectProduct(CyclicGroup(4), CyclicGroup(2)));
Summarise("C2xC2xC2", DirectProduct(CyclicGroup(2), CyclicGroup(2), CyclicGroup(2)));
Summarise("S3xC3", DirectProduct(SymmetricGroup(3), CyclicGroup(3)));
Summarise("Q8xC3", DirectProduct(QuaternionGroup(8), CyclicGroup(3)));
Summarise("SL(2,3)", SL(2, 3));
Summarise("C7:C3", Group((1,2,3,4,5,6,7), (2,3,5)(4,7,6)));
QUIT;
"""

LINES = (Path(__file__).parent / "gap_characters.jsonl").read_text("utf-8").splitlines()
GAP = {entry["name"]: entry for entry in map(json.loads, LINES)}
ASKED = tuple(name for name in ALL_GROUPS if name not in NOT_FAITHFUL)  # GAP knows nothing of actions
everywhere = pytest.mark.parametrize("name", ASKED)


def test_gap_was_asked_for_every_group() -> None:
    assert set(GAP) == set(ASKED)


@everywhere
def test_structure(name: str) -> None:
    g, gap = group(name), GAP[name]
    assert g.order == gap["order"]
    assert len(g.conjugacy_classes()) == gap["classes"]
    assert len(g.subgroups()) == gap["subgroups"]
    assert len(g.subgroups(up_to_conjugacy=True)) == gap["subgroup_classes"]


@everywhere
def test_real_irreps_follow_from_the_complex_ones(name: str) -> None:
    """Indicator 1: a real irrep of the same degree, s = 1. Indicator -1: one of twice the degree, s = 4.
    Indicator 0: each pair of conjugates gives one of twice the degree, s = 2.
    """
    expected: Counter[tuple[int, int]] = Counter()  # (dimension, s), each counted twice, a conjugate once
    for degree, indicator in zip(GAP[name]["degrees"], GAP[name]["indicators"], strict=True):
        dim_and_s = {1: (degree, 1), -1: (2 * degree, 4), 0: (2 * degree, 2)}[indicator]
        expected[dim_and_s] += 1 if indicator == 0 else 2
    found = Counter((irrep.dim, irrep.commutant_dim) for irrep in group(name).irreps)
    assert {key: 2 * count for key, count in found.items()} == expected


if __name__ == "__main__":
    sys.stdout.write(RECIPE)
