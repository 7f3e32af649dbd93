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
    from steerable.data.instance_growing import courses, grown_instances
    from steerable.data.label_tables import load_label_table
    from steerable.data.labelled_images import LabelledImages
    from steerable.data.mask_folders import load_mask_folder
    from steerable.data.masked_images import MaskedImages
    from steerable.data.normalisation import Normalisation
    from steerable.data.object_fields import instance_fields, instance_type
    from steerable.data.pixel_formats import PixelFormat, Selection
    from steerable.data.splits import Splits
    from steerable.data.volume_folders import holds_volumes

__getattr__, __dir__ = lazy_names(
    __name__,
    {
        "steerable.data.augmentation": ("Augmentation", "augment"),
        "steerable.data.batches": ("DeviceBatches",),
        "steerable.data.cifar": ("CIFAR10", "CIFAR100", "load_cifar"),
        "steerable.data.datasets": ("DATASETS", "load_dataset"),
        "steerable.data.digits": ("load_digits",),
        "steerable.data.folders": ("load_image_folder",),
        "steerable.data.images": ("read_images",),
        "steerable.data.instance_growing": ("courses", "grown_instances"),
        "steerable.data.label_tables": ("load_label_table",),
        "steerable.data.labelled_images": ("LabelledImages",),
        "steerable.data.mask_folders": ("load_mask_folder",),
        "steerable.data.masked_images": ("MaskedImages",),
        "steerable.data.normalisation": ("Normalisation",),
        "steerable.data.object_fields": ("instance_fields", "instance_type"),
        "steerable.data.pixel_formats": ("PixelFormat", "Selection"),
        "steerable.data.splits": ("Splits",),
        "steerable.data.volume_folders": ("holds_volumes",),
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
