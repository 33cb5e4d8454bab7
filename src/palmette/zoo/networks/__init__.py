"""The zoo's networks: one file per family, and the registry of their names.

registry         names, defaults and the function that builds each; no torch until one is built
building_blocks  common layers, the stem for small images, initial weights
alexnet          AlexNet
cifar10          the small network of TensorFlow's CIFAR-10 tutorial
googlenet        GoogLeNet
lenet            LeNet-5
mobilenet        MobileNet
nin              Network in Network
resnet           ResNet-18 and -34
squeezenet       SqueezeNet
vgg              VGG-11, -16, -19 and a small VGG-11

A new network is one function and one row in the registry.
"""
