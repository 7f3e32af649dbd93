"""The feature maps of a converted network: its fields after some of its modules, with their types."""

from __future__ import annotations

import copy
from collections.abc import Sequence

import torch
from torch import Tensor, fx, nn

from steerable.conversion import Converted
from steerable.errors import did_you_mean, listing
from steerable.types.field_types import FieldType

__all__ = ["ConvertedFeatures", "converted_features"]


class ConvertedFeatures(nn.Module):
    """A converted network up to some of its modules: an image or a volume → a list of fields, in the order of these.

    Attributes:
        in_type: the type of the image.
        feature_types: the type of each field.
        reductions: by how many pixels per axis the image is reduced at each.
    """

    def __init__(
        self, net: fx.GraphModule, in_type: FieldType, feature_types: Sequence[FieldType], reductions: Sequence[int]
    ) -> None:
        super().__init__()
        self.net, self.in_type = net, in_type
        self.feature_types, self.reductions = tuple(feature_types), tuple(reductions)

    def forward(self, x: Tensor) -> list[Tensor]:
        return list(self.net(x))


def converted_features(network: Converted, at: Sequence[str] | None, size: int) -> ConvertedFeatures:
    """The fields of a converted network after some of its modules; see :func:`~steerable.models.feature_maps`."""
    last = _last_calls(network.net)
    if not at:
        raise ValueError(
            "a converted network has the layout of the plain one, which only you know: say after which modules feature "
            f"maps are taken, at=[...], of {listing(last, 20)}."
        )
    for path in at:
        if path not in last:
            raise ValueError(f"the converted network calls no module `{path}`. {did_you_mean(path, last)}")
    graph = copy.deepcopy(network.net.graph)
    nodes = {node.name: node for node in graph.nodes}
    chosen = [nodes[last[path].name] for path in at]
    (output,) = (node for node in graph.nodes if node.op == "output")
    output.args = (tuple(chosen),)
    net = fx.GraphModule(network.net, graph)  # the modules themselves, so that parameters are shared
    net.graph.eliminate_dead_code()
    net.delete_all_unused_submodules()
    net.recompile()
    kinds: list[FieldType] = []
    for path in at:
        if not isinstance(kind := last[path].meta.get("field_type"), FieldType):
            raise ValueError(
                f"the output of the converted network after `{path}` is not a field. Choose another module."
            )
        kinds.append(kind)
    sides = [size] * (network.in_type.group.axes or 2)
    shapes = _shapes(net, network.in_type, sides)
    for path, shape in zip(at, shapes, strict=True):
        if len(shape) != 2 + len(sides) or size % shape[-1]:
            raise ValueError(
                f"after `{path}` the converted network has the shape {shape} for an input of "
                f"{'×'.join(map(str, sides))}, and a feature map is an image or a volume, reduced by a whole number. "
                "Take a module before it, or another `size`."
            )
    return ConvertedFeatures(net, network.in_type, kinds, [size // shape[-1] for shape in shapes])


def _last_calls(net: fx.GraphModule) -> dict[str, fx.Node]:
    """The last call inside each module, by the module's path and by those of the modules around it."""
    found: dict[str, fx.Node] = {}
    for node in net.graph.nodes:
        if node.op == "call_module":
            parts = str(node.target).split(".")
            found.update({".".join(parts[:k]): node for k in range(1, len(parts) + 1)})
    return found


@torch.no_grad()
def _shapes(net: fx.GraphModule, in_type: FieldType, sides: Sequence[int]) -> list[tuple[int, ...]]:
    """The shapes in a pass over an image; it uses a copy, so that nothing in the network changes."""
    twin = copy.deepcopy(net).eval()
    like = next((p for p in twin.parameters()), torch.zeros(()))
    image = torch.zeros(1, in_type.channels, *sides, dtype=like.dtype, device=like.device)
    return [tuple(found.shape) for found in twin(image)]
