"""Images and labels: data sets, folders and tables of images, batches, augmentation."""

from steerable.data.batches import DeviceBatches
from steerable.data.cifar import CIFAR10, CIFAR100, load_cifar
from steerable.data.datasets import DATASETS, load_dataset
from steerable.data.digits import load_digits
from steerable.data.folders import load_image_folder
from steerable.data.images import read_images
from steerable.data.label_tables import load_label_table
from steerable.data.labelled_images import LabelledImages, Splits
from steerable.data.preprocessing import Augmentation, Normalisation, augment

__all__ = [
    "CIFAR10",
    "CIFAR100",
    "DATASETS",
    "Augmentation",
    "DeviceBatches",
    "LabelledImages",
    "Normalisation",
    "Splits",
    "augment",
    "load_cifar",
    "load_dataset",
    "load_digits",
    "load_image_folder",
    "load_label_table",
    "read_images",
]
