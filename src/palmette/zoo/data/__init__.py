"""Data sets by name, ready for a network of a given input shape.

base            what a data set is: a training split and a held-out split; what a decoder is
registry        the data sets that a name can mean; ``load_data``
digits          scikit-learn's 1797 images of 8×8
cifar10         CIFAR-10
cifar10_files   the files of CIFAR-10's official archive
images          images stored as bytes, normalised and resized batch by batch
folder          images in a folder for each class
compressed      JPEG, PNG and others, decoded by Pillow
table           a table of numbers and its targets
table_file      reads it
table_targets   tells classes from numbers
arrow           an Arrow data set on disk, by Hugging Face's ``datasets``
arrow_columns   which of its columns are used, and what is stored of them
tokens          a file of token ids, and the next token as the target
decoded         samples whose batches are their stored bytes, decoded
files           names of files with options, and errors that name the file
sampling        which samples are held out, and which of many are looked at
custom          a user's own map-style data set
custom_source   makes it by its name, and checks what it returns
custom_tensors  one that returns tensors and does not say how they are stored
custom_stored   one that says how its samples are stored and decoded
custom_decoder  calls its ``decode``, also on nodes without the data set
item_format     the tensors of inputs and labels as bytes, and back
custom_bundles  one whose inputs are several tensors
collated        samples of varying length, padded by a recipe's collate function
length_scan     how long samples are, and where padding goes
odd_samples     samples of a user's own data that no training can use
concat          several data sets as one
transformed     samples that a recipe's transform turns into inputs
raw_bytes       tensors as bytes, and back

A new data set is one file with a ``load`` function and one row in the registry.
"""

from palmette.zoo.data.base import DataSet, DataSplit, Decoder, Indices
from palmette.zoo.data.concat import concatenate
from palmette.zoo.data.registry import load_data, recipe_data

__all__ = ["DataSet", "DataSplit", "Decoder", "Indices", "concatenate", "load_data", "recipe_data"]
