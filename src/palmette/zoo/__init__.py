"""What ships with Palmette: networks, data sets and a catalogue of hardware.

models             a network by name, from the zoo or from the user's own code, as layers that can be cut after
networks           the zoo: one file per family of networks, and the registry of their names
example_inputs     samples to run a user's module on
capture            cuts any ``nn.Module`` into consecutive layers
data               data sets by name
recipes            a user's training: network, data and loss
adapters           LoRA: adapters beside frozen weights
lengths            samples of varying length, and batches cut to fit them
freezing           which weights are not trained
casting            a module in another dtype
batch_norms        the batch norms that a network calls
import_callable    the user's own code by name
user_code          where in it an error was raised
hardware           the catalogue of machines
hardware_defaults  fills memory and power of a cluster's nodes from that catalogue
cluster_template   a cluster file to start from
training_template  a training file to start from
training_names     its names that nothing answers to

Nothing is imported here, so that ``import palmette.zoo`` costs no torch.
"""
