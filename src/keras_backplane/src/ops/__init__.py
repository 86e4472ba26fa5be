"""The functions of Keras' backend, by module."""

from keras_backplane.src.ops import core as core
from keras_backplane.src.ops import image as image
from keras_backplane.src.ops import linalg as linalg
from keras_backplane.src.ops import math as math
from keras_backplane.src.ops import nn as nn
from keras_backplane.src.ops import numpy as numpy
