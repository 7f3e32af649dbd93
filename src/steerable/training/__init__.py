"""Training: data sets, preprocessing, batches."""

from steerable.training.batches import DeviceBatches
from steerable.training.cifar import CIFAR10, CIFAR100, load_cifar
from steerable.training.datasets import DATASETS, load_dataset
from steerable.training.digits import load_digits
from steerable.training.folders import load_image_folder
from steerable.training.images import read_images
from steerable.training.label_tables import load_label_table
from steerable.training.labelled import LabelledImages, Splits
from steerable.training.preprocessing import Augmentation, Normalisation, augment

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
