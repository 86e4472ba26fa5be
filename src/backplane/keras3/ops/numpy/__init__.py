"""The functions of `keras.ops.numpy`: what Keras asks of its backend under the name `numpy`.

Each is written once over tensors of a graph, in the chapter of its theme.
"""

from backplane.keras3.ops.numpy.arithmetic import *  # noqa: F403
from backplane.keras3.ops.numpy.bits import *  # noqa: F403
from backplane.keras3.ops.numpy.bitwise import *  # noqa: F403
from backplane.keras3.ops.numpy.counting import *  # noqa: F403
from backplane.keras3.ops.numpy.creation import *  # noqa: F403
from backplane.keras3.ops.numpy.elementwise import *  # noqa: F403
from backplane.keras3.ops.numpy.indexing import *  # noqa: F403
from backplane.keras3.ops.numpy.joining import *  # noqa: F403
from backplane.keras3.ops.numpy.logic import *  # noqa: F403
from backplane.keras3.ops.numpy.mapping import *  # noqa: F403
from backplane.keras3.ops.numpy.matrices import *  # noqa: F403
from backplane.keras3.ops.numpy.nans import *  # noqa: F403
from backplane.keras3.ops.numpy.products import *  # noqa: F403
from backplane.keras3.ops.numpy.reductions import *  # noqa: F403
from backplane.keras3.ops.numpy.shaping import *  # noqa: F403
from backplane.keras3.ops.numpy.sorting import *  # noqa: F403
from backplane.keras3.ops.numpy.trigonometry import *  # noqa: F403
from backplane.keras3.ops.numpy.windows import *  # noqa: F403
from backplane.keras3.tensor import FUNCTIONS

FUNCTIONS.update({name: f for name, f in globals().items() if callable(f)})
