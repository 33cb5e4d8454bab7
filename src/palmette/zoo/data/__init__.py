"""Data sets by name, ready for a network of a given input shape.

base           what a data set is: a training split and a held-out split
registry       the data sets that a name can mean; ``load_data``
digits         scikit-learn's 1797 images of 8×8
cifar10        CIFAR-10
cifar10_files  the files of CIFAR-10's official archive
custom         a user's own map-style data set
images         images in memory, normalised and resized batch by batch

A new data set is one file with a ``load`` function and one row in the registry.
"""

from palmette.zoo.data.base import DataSet, DataSplit, Indices, concatenate
from palmette.zoo.data.registry import load_data

__all__ = ["DataSet", "DataSplit", "Indices", "concatenate", "load_data"]
