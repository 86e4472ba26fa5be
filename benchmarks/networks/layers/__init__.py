"""The same layers in K and by hand in each library, so that a network is written once and its
rivals differ from it only in what a library is called for.

Every module has a class `Layers` with the same methods. Images have the layout that its library
prefers: `image` brings a batch (samples, *spatial, channels) into it, `channels_last` back.
"""
