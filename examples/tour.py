"""A tour of the foundation: groups, irreps, basis filters, capsules and what the paper's networks cost.

Run ``make tour``, or ``python examples/tour.py --out FOLDER``. Everything that is printed is computed by the library.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from rich.console import Console
from rich.table import Table

import steerable as st
from steerable.figures import patch_basis_figure, save
from steerable.types.network_plans import resnet_plan

# Depth, copies n of each capsule, what the paper's table 2 says, classes where its number includes the classifier.
NETWORKS = (
    (14, 14, "4.4M", 0),
    (20, 8, "2.2M", 0),
    (26, 14, "9.1M", 0),
    (20, 22, "16.7M", 0),
    (14, 20, "9.1M", 0),
    (20, 14, "6.9M", 100),
)


def main() -> None:
    """Print the tour and draw the basis filters."""
    parser = argparse.ArgumentParser(description="What the library computes, printed and drawn.")
    parser.add_argument("--out", type=Path, default=Path("out/tour"), help="folder for the picture")
    out: Path = parser.parse_args().out
    out.mkdir(parents=True, exist_ok=True)

    console = Console(highlight=False)
    if not console.is_terminal:
        console = Console(highlight=False, width=100)
    group = st.dihedral(4)
    picture = out / "basis_filters.png"

    show_group(console, group)
    show_irreps(console, group)
    show_patch(console, group, picture)
    show_capsules(console, group)
    show_networks(console, group)
    console.print(f"\nThe basis filters are drawn in [bold]{picture}[/bold].", soft_wrap=True)


def heading(console: Console, title: str, text: str) -> None:
    """A section's title and a sentence or two on what follows."""
    console.print()
    console.rule(f"[bold]{title}", align="left")
    console.print(text)
    console.print()


def show_group(console: Console, group: st.FiniteGroup) -> None:
    """The character table."""
    heading(
        console,
        "1. The group D4",
        f"The {group.order} symmetries of a square: {' '.join(group.elements)}. [bold]r[/bold] turns an image by 90° "
        "counter-clockwise, [bold]m[/bold] mirrors left and right, [bold]mr[/bold] is m after r. Its character "
        "table, one column per conjugacy class:",
    )
    characters = st.character_table(group)
    table = Table("irrep", box=None)
    for members in characters.classes:
        table.add_column("{" + " ".join(members) + "}", justify="right")
    for name, row in zip(characters.irreps, characters.values, strict=True):
        table.add_row(f"[bold]{name}[/bold]", *(f"{value:g}" for value in row))
    console.print(table)


def show_irreps(console: Console, group: st.FiniteGroup) -> None:
    """The right half of the paper's table 1."""
    heading(
        console,
        "2. Irreducible representations (table 1 of the paper)",
        "The smallest ways in which a feature vector can transform. Every other way is a sum of these.",
    )
    table = Table("irrep", *(f"{g}" for g in group.elements), box=None)
    for column in table.columns[1:]:
        column.justify = "right"
    for irrep in group.irreps:
        table.add_row(f"[bold]{irrep}[/bold]", *(as_text(irrep(g)) for g in group.elements))
    console.print(table)


def as_text(matrix: NDArray[np.float64]) -> str:
    """A small matrix on as many lines as it has rows."""
    return "\n".join(" ".join(f"{value:2.0f}" for value in row) for row in matrix)


def show_patch(console: Console, group: st.FiniteGroup, picture: Path) -> None:
    """The left half of the paper's table 1, drawn."""
    patch = st.pixel_patch(group, 3)
    multiplicities, basis = st.decompose(patch)
    parts = " + ".join(f"{m}·{irrep}" for m, irrep in zip(multiplicities, group.irreps, strict=True) if m)
    heading(
        console,
        "3. What a 3×3 patch is made of",
        f"D4 moves the nine pixels of a patch, so the patch is a representation too. Its type is {multiplicities}, "
        f"that is {parts}. The picture shows the basis filters of each irrep.",
    )
    save(patch_basis_figure(group, 3), picture)
    rotated = np.linalg.inv(basis) @ patch("r") @ basis
    console.print("In this basis a rotation by 90° is block-diagonal, with the irreps' own matrices as blocks:\n")
    console.print("\n".join("  " + " ".join(f"{v:2.0f}" if abs(v) > 1e-9 else " ·" for v in row) for row in rotated))


def show_capsules(console: Console, group: st.FiniteGroup) -> None:
    """Appendix C, with what each capsule admits."""
    heading(
        console,
        "4. Capsules (appendix C) and the nonlinearities that they admit",
        "A quotient capsule has one channel per coset of a subgroup K. What a capsule admits is read off its "
        "matrices: permutations admit any pointwise function such as ReLU; signs need an odd or a concatenated one "
        "such as CReLU.",
    )
    table = Table("subgroup K", "capsule", box=None)
    table.add_column("dim", justify="right")
    table.add_column("type")
    table.add_column("admits")
    paper_order = ("regular", "qm", "qmr", "qmr2", "qmr3", "r2", "r", "r2m", "r2mr", "A1")
    subgroups = {str(group.quotient(members)): members for members in group.subgroups()}
    names = [*paper_order, *(str(irrep) for irrep in group.irreps[1:])]
    for name in names:
        capsule = group.capsule(name)
        members = "{" + " ".join(subgroups[name]) + "}" if name in subgroups else "(irrep)"
        if len(subgroups.get(name, ())) == group.order:
            members = "D4"
        table.add_row(members, f"[bold]{name}[/bold]", str(capsule.dim), str(capsule.type), admitted(capsule))
    console.print(table)


def admitted(capsule: st.Capsule) -> str:
    """The kinds of nonlinearity in a few words."""
    if capsule.admits("pointwise"):
        return "anything"
    return ", ".join(kind for kind in capsule.nonlinearities if kind != "scale-free concatenated")


def show_networks(console: Console, group: st.FiniteGroup) -> None:
    """The parameter counts of the paper's table 2, and μ."""
    heading(
        console,
        "5. What the paper's networks cost",
        "The residual stream is n·(regular + qm + qmr2 + qmr3), the inner layer n·(A1 + A2 + B1 + B2 + 2·E), in "
        "three stages of n, 2n and 4n copies. The parameters of all convolutions, beside the paper's numbers (the "
        "last one agrees when the linear classifier is counted too):",
    )
    table = Table("depth", "widths", "n", "convolution parameters", "paper says", "", box=None)
    for column in (0, 2, 3, 4):
        table.columns[column].justify = "right"
    for depth, copies, paper, classes in NETWORKS:
        plan = resnet_plan(depth, copies, group=group).convolutions
        cost = sum(convolution.parameters for convolution in plan)
        stem, first = plan[0], plan[1]
        widths = f"({stem.out_type.channels}, {first.out_type.channels})"
        note = ""
        if classes:
            total = cost + (plan[-1].out_type.channels + 1) * classes
            note = f"{total:,} with {classes} classes"
        table.add_row(str(depth), widths, str(copies), f"[bold]{cost:,}[/bold]", paper, note)
    console.print(table)

    console.print(
        "\nA parameter stands for μ weights of a plain convolution between the same numbers of channels. In one "
        "block (n = 1):\n"
    )
    table = Table("convolution", "from", "to", "weights", "parameters", "μ", box=None)
    for column in (3, 4, 5):
        table.columns[column].justify = "right"
    for convolution in resnet_plan(8, 1, group=group).blocks[0].convolutions:
        a, b = convolution.in_type, convolution.out_type
        mu = st.parameter_utilization(a, b, convolution.kernel_size)
        plain = round(mu * convolution.parameters)
        name = convolution.name.rsplit(".", maxsplit=1)[-1]
        table.add_row(name, str(a), str(b), f"{plain:,}", f"{convolution.parameters:,}", f"[bold]{mu:.2f}[/bold]")
    console.print(table)


if __name__ == "__main__":
    main()
