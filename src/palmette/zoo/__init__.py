"""What ships with Palmette: networks, data sets and a catalogue of hardware.

models      a network by name, from the zoo or from the user's own code, as layers that can be cut after
networks    the zoo: one file a family of networks, and the table of their names (no torch until one is built)
capture     any ``nn.Module`` into consecutive layers
freezing    which weights stay as they are
data        data sets by name
norms       the batch norms that a network calls
imported    the user's own code by name
cifar       the files of CIFAR-10
hardware    the catalogue of machines
equip       a cluster completed from that catalogue

Nothing is imported here, so that ``import palmette.zoo`` costs no torch.
"""
