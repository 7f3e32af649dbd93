"""What the filter-bank layers refuse, word for word."""

import pytest
import torch
from refusals import refusal

import steerable as st
from steerable import FieldType
from steerable import nn as snn

D4 = st.dihedral(4)
A1, REGULAR, E = FieldType(D4, "A1"), FieldType(D4, "regular"), FieldType(D4, "E")


def test_wrong_channels_and_rank() -> None:
    layer = snn.Conv2d(REGULAR, E, 3)
    assert refusal(ValueError, layer, torch.zeros(2, 3, 5, 5)) == (
        "Conv2d expected 8 channels, those of its type `regular`, got 3 (shape (2, 3, 5, 5))."
    )
    assert refusal(ValueError, layer, torch.zeros(8, 5, 5)) == (
        "Conv2d expected a tensor of shape (batch, 8, height, width), got one of rank 3 with shape (8, 5, 5). Add a "
        "batch dimension with x.unsqueeze(0)."
    )
    assert refusal(ValueError, snn.Linear(REGULAR, E), torch.zeros(2, 8, 1, 1)) == (
        "Linear expected a tensor of shape (batch, 8), got one of rank 4 with shape (2, 8, 1, 1). It maps single "
        "fibres. Pool the map first, with `snn.GlobalAvgPool(regular)`, or map every pixel, with `snn.Conv2d(regular, "
        "E, 1)`."
    )


def test_types_of_another_group() -> None:
    other = FieldType(st.cyclic(4), "regular")
    assert refusal(TypeError, snn.Conv2d, REGULAR, other, 3) == (
        "a layer maps between fields of one group; got in_type `regular` of D4 and out_type `regular` of C4. Put "
        "snn.Restrict in between."
    )
    assert refusal(TypeError, snn.Conv2d, 8, REGULAR, 3) == (
        "Conv2d takes a FieldType as in_type, got int 8. A type says how channels change when the image is turned, a "
        "number of channels does not. Give the `out_type` of the layer before, FieldType('D4', '4*regular'), or text: "
        "Conv2d('3*A1', '4*regular', …, group='D4')."
    )


def test_kernel_larger_than_the_padded_input() -> None:
    assert refusal(ValueError, snn.Conv2d(A1, A1, 5, padding=1), torch.zeros(1, 1, 2, 8)) == (
        "Conv2d: the kernel spans 5 pixels but the padded height is only 4 (2 + 2·1). Use a larger input, more "
        "padding or a smaller kernel."
    )
    assert refusal(ValueError, snn.Conv2d(A1, A1, 3, dilation=3), torch.zeros(1, 1, 8, 6)) == (
        "Conv2d: the kernel spans 7 pixels but the padded width is only 6 (6 + 2·0). Use a larger input, more "
        "padding or a smaller kernel."
    )


def test_same_padding_of_even_kernels_and_strides() -> None:
    assert refusal(ValueError, snn.Conv2d, A1, A1, 4, padding="same") == (
        "padding='same' needs an odd kernel: one that spans 4 pixels in height would be padded more on one side than "
        "on the other, which is not equivariant. Use an odd kernel_size, or give the padding as a number."
    )
    assert refusal(ValueError, snn.Conv2d, A1, A1, 3, stride=2, padding="same") == (
        "padding='same' keeps the size and needs stride 1; got stride (2, 2)."
    )


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"kernel_size": (3, 5)}, "3×5"),
        ({"kernel_size": 3, "stride": (1, 2)}, "the stride has one extent for both; got (1, 2)."),
        ({"kernel_size": 3, "padding": (1, 2)}, "the padding has one extent for both; got (1, 2)."),
        ({"kernel_size": 3, "dilation": (1, 2)}, "the kernel has one extent for both; got (3, 5)."),
        ({"kernel_size": 0}, "kernel_size must be at least 1, got 0."),
        ({"kernel_size": 3, "stride": 0}, "stride must be at least 1, got 0."),
        ({"kernel_size": 3, "padding": -1}, "padding must be at least 0, got -1."),
        ({"kernel_size": 3, "init": "xavier"}, "unknown initialisation 'xavier'. Known names: `he`, `orthogonal`."),
    ],
    ids=str,
)
@pytest.mark.parametrize("layer", [snn.Conv2d, snn.ConvTranspose2d])
def test_options_that_no_layer_of_d4_can_have(layer: type, options: dict[str, object], message: str) -> None:
    assert message in refusal(ValueError, layer, A1, A1, **options)


def test_other_options() -> None:
    assert refusal(ValueError, snn.Conv2d, A1, A1, 3, padding_mode="mirror") == (
        "padding_mode must be one of zeros, reflect, replicate, circular; got 'mirror'."
    )
    assert refusal(ValueError, snn.Conv2d, A1, A1, 3, padding="full") == (
        "padding must be a number, a pair of numbers, 'same' or 'valid'; got 'full'."
    )
    assert (
        refusal(TypeError, snn.Conv2d, A1, A1, 1.5) == "kernel_size must be a whole number or a pair of them, got 1.5."
    )
    assert refusal(ValueError, snn.Conv2d, 4 * A1, 3 * REGULAR, 3, groups=2) == (
        "groups=2 divides a type into equal shares, but out_type `3*regular` has 3 copies of `regular`, which 2 does "
        "not divide. Change the number of copies or of groups."
    )
    assert refusal(ValueError, snn.Conv2d, 0 * A1, REGULAR, 3) == "Conv2d: in_type has no channels."


def test_a_pair_of_types_without_a_map_warns() -> None:
    with pytest.warns(UserWarning, match="no equivariant map") as caught:
        layer = snn.Conv2d(A1, FieldType(D4, "A2"), 3)
    assert [str(w.message) for w in caught] == [
        "Conv2d: there is no equivariant map from `A1` to `A2` with kernel size (3, 3), so the output is always "
        "zero. Choose types that share an irrep, or a larger kernel."
    ]
    assert caught[0].filename == __file__
    assert not layer(torch.randn(1, 1, 5, 5)).any()


def test_output_padding_warns_where_it_breaks_equivariance() -> None:
    with pytest.warns(snn.EquivarianceWarning) as caught:
        layer = snn.ConvTranspose2d(A1, A1, 3, stride=2, padding=1, output_padding=1)
    message = (
        "ConvTranspose2d with output_padding=(1, 1) is not exactly equivariant to D4: it enlarges the output on one "
        "side only. To double a size use kernel_size=4, stride=2, padding=1."
    )
    assert [str(w.message) for w in caught] == [message]
    assert st.testing.equivariance_error(layer) > 0.01
    strict = {"stride": 2, "padding": 1, "output_padding": 1, "strict": True}
    assert refusal(ValueError, snn.ConvTranspose2d, A1, A1, 3, **strict) == message
    st.testing.assert_equivariant(snn.ConvTranspose2d(A1, A1, 4, stride=2, padding=1, strict=True))


def test_a_reflection_needs_pixels_to_reflect() -> None:
    layer = snn.Conv2d(A1, A1, 7, padding=4, padding_mode="reflect")
    with pytest.raises(ValueError, match="a height of 4 cannot be padded by reflecting 4 pixels at its border"):
        layer(torch.zeros(1, 3, 4, 4)[:, : A1.channels])


def test_inputs_too_small_for_their_padding() -> None:
    around = snn.Conv2d(A1, A1, 3, padding=3, padding_mode="circular")
    assert around(torch.zeros(1, 1, 3, 3)).shape == (1, 1, 7, 7)
    assert refusal(ValueError, around, torch.zeros(1, 1, 2, 3)) == (
        "Conv2d: a height of 2 cannot be padded by repeating 3 pixels at its border. Use a larger input, or "
        "padding_mode 'zeros'."
    )
    larger = snn.ConvTranspose2d(A1, A1, 3, 2, 5)
    assert larger(torch.zeros(1, 1, 6, 5)).shape == (1, 1, 3, 1)
    assert refusal(ValueError, larger, torch.zeros(1, 1, 6, 4)) == (
        "ConvTranspose2d: nothing is left of an input of width 4, since the padding takes 5 pixels away on both sides "
        "and there are only 9. Use a larger input or less padding."
    )
