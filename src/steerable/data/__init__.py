"""Images, volumes and labels: data sets, folders and tables, batches, augmentation.

Each name is imported when it is first used, so that the names of data sets are known without torch.
"""

from typing import TYPE_CHECKING

from steerable.lazy import lazy_names

if TYPE_CHECKING:
    from steerable.data.augmentation import Augmentation, augment
    from steerable.data.batches import DeviceBatches
    from steerable.data.cifar import CIFAR10, CIFAR100, load_cifar
    from steerable.data.datasets import DATASETS, load_dataset
    from steerable.data.digits import load_digits
    from steerable.data.folders import load_image_folder
    from steerable.data.images import read_images
    from steerable.data.instance_fields import instance_fields, instance_type
    from steerable.data.instance_growing import courses, grown_instances
    from steerable.data.label_tables import load_label_table
    from steerable.data.labelled_images import LabelledImages
    from steerable.data.mask_folders import load_mask_folder
    from steerable.data.masked_images import MaskedImages
    from steerable.data.normalisation import Normalisation
    from steerable.data.pixel_formats import PixelFormat, Selection
    from steerable.data.splits import Splits
    from steerable.data.volume_folders import holds_volumes

__getattr__, __dir__ = lazy_names(
    __name__,
    {
        "CIFAR10": "steerable.data.cifar",
        "CIFAR100": "steerable.data.cifar",
        "DATASETS": "steerable.data.datasets",
        "Augmentation": "steerable.data.augmentation",
        "DeviceBatches": "steerable.data.batches",
        "LabelledImages": "steerable.data.labelled_images",
        "MaskedImages": "steerable.data.masked_images",
        "Selection": "steerable.data.pixel_formats",
        "Normalisation": "steerable.data.normalisation",
        "PixelFormat": "steerable.data.pixel_formats",
        "Splits": "steerable.data.splits",
        "augment": "steerable.data.augmentation",
        "courses": "steerable.data.instance_growing",
        "grown_instances": "steerable.data.instance_growing",
        "instance_fields": "steerable.data.instance_fields",
        "instance_type": "steerable.data.instance_fields",
        "holds_volumes": "steerable.data.volume_folders",
        "load_cifar": "steerable.data.cifar",
        "load_dataset": "steerable.data.datasets",
        "load_digits": "steerable.data.digits",
        "load_image_folder": "steerable.data.folders",
        "load_label_table": "steerable.data.label_tables",
        "load_mask_folder": "steerable.data.mask_folders",
        "read_images": "steerable.data.images",
    },
)

__all__ = [
    "CIFAR10",
    "CIFAR100",
    "DATASETS",
    "Augmentation",
    "DeviceBatches",
    "LabelledImages",
    "MaskedImages",
    "Normalisation",
    "PixelFormat",
    "Selection",
    "Splits",
    "augment",
    "courses",
    "grown_instances",
    "holds_volumes",
    "instance_fields",
    "instance_type",
    "load_cifar",
    "load_dataset",
    "load_digits",
    "load_image_folder",
    "load_label_table",
    "load_mask_folder",
    "read_images",
]
