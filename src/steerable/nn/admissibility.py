"""The nonlinearities that a capsule admits, and the remedies if it does not admit one."""

from __future__ import annotations

from collections.abc import Callable

from steerable.algebra.capsules import Capsule, Nonlinearity
from steerable.algebra.sampled_functions import is_sampled
from steerable.types.field_types import FieldType

__all__ = ["alternatives", "require", "require_permutations"]

_REMEDIES: dict[Nonlinearity, str] = {
    "pointwise": "a pointwise nonlinearity such as `ReLU`",
    "concatenated": "`CReLU`",
    "odd": "an odd nonlinearity such as `Tanh`",
    "norm": "`NormReLU`",
}

_PLURALS = {
    "permutation": "permutations",
    "signed permutation": "signed permutations",
    "monomial": "monomial, with entries other than ±1",
    "orthogonal": "orthogonal, but mix channels",
    "general": "not orthogonal",
}


def require(
    layer: str, field_type: FieldType, kind: Nonlinearity, *, remedy: Callable[[Capsule], str] | None = None
) -> None:
    """Raise a TypeError with the remedy if some capsule of the type does not admit this kind of nonlinearity.

    Args:
        layer: how the message calls what is not admissible.
        field_type: the type in question.
        kind: what each of its capsules must admit.
        remedy: a sentence for a capsule that does not; by default it names nonlinearities that the capsule admits.
    """
    for capsule, _ in field_type.terms:
        if not capsule.admits(kind):
            raise TypeError(
                f"{layer} is not admissible for capsule `{capsule}`: its matrices are {_PLURALS[capsule.kind]}. "
                f"{remedy(capsule) if remedy else _remedy(capsule, kind)}"
            )


def _remedy(capsule: Capsule, kind: Nonlinearity) -> str:
    fitting = _fitting(capsule)
    if not fitting or kind == "norm":  # pooling asks for this too: another nonlinearity would not help
        return "Change to an orthogonal basis first, for instance with `ToIrreps`."
    return f"Use {_choice(fitting)}."


def alternatives(capsule: Capsule, *others: str) -> str:
    """A sentence that names nonlinearities which a capsule admits, `Gated` among them, and other ways out."""
    return f"Use {_choice([*_fitting(capsule), '`Gated`', *others])}."


def _fitting(capsule: Capsule) -> list[str]:
    fitting = [text for kind, text in _REMEDIES.items() if capsule.admits(kind)]
    if not fitting and capsule.admits("scale-free concatenated"):
        fitting = ["`CReLU`"]
    return ["`Fourier`", *fitting] if is_sampled(capsule) else fitting


def _choice(texts: list[str]) -> str:
    return texts[0] if len(texts) == 1 else f"{', '.join(texts[:-1])}, or {texts[-1]}"


def require_permutations(layer: str, field_type: FieldType, instead: str) -> None:
    """Raise a TypeError if a maximum over pixels, channel by channel, does not commute with some capsule."""
    for capsule, _ in field_type.terms:
        if not capsule.admits("pointwise"):
            ready = capsule.admits("norm") or not instead.startswith("NormMaxPool")
            first = "" if ready else "Change to an orthogonal basis first, for instance with `ToIrreps`. "
            raise TypeError(
                f"{layer} is not admissible for capsule `{capsule}`: the maximum of each channel commutes with "
                f"permutations only, and its matrices are not. {first}Use `{instead}`."
            )
