"""Modules that serve only speed on PyTorch."""

from backplane.engines.fast import Piece

PIECES = (
    Piece("torch.attention", "compute the scores of attention block by block, and keep none",
          "0.26 to 1.02 of single operations; predictions of GPTs of 256 steps 0.84",
          "the processor, predictions in float32, 128 keys or more", "pass join_groups"),
    Piece("torch.blocks", "compute chains of operations block by block",
          "0.4 to 1.2 of the time for four million elements", "the processor", "pass tiling"),
    Piece("torch.phases", "convolve once for each phase instead of transposed with strides",
          "0.25 ms instead of 0.9 (16 images of 32 × 32 × 3)",
          "strides that divide the sizes of the kernel, few channels", "choice torch.phases"),
    Piece("torch.products", "convolve as a product of matrices",
          "2.1 ms instead of 26 (3 × 3 over 2 × 2, 512 channels); where oneDNN multiplies, a step"
          " of DenseNet-121 takes 0.75 of the time, its prediction 0.70",
          "the processor, kernels of one element, or large ones over few places",
          "choice torch.windows"),
    Piece("torch.threefry", "compute portable random words by one kernel",
          "one pass over memory instead of 180", "accelerators"),
    Piece("torch.updates",
          "compute the steps of optimizers by the kernels of `torch.optim`, in place",
          "RMSprop, Adagrad and others on 1.5 million weights take 0.1 to 0.5 of the time",
          "no accelerator needed; not with the option `compile=True`", "pass optimizer_steps"),
)  # fmt: skip
