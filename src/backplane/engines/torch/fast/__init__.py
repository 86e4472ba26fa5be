"""What serves only speed on PyTorch. Without it, results are the same but for rounding.

- `attention`: scores block by block, none of which are kept, in predictions with 128 keys or more.
  Alone it takes 0.26 to 1.02 of single operations, the less the more scores there are; with 64 keys
  0.9 to 1.2. A GPT of 128 steps takes 0.91 of the time for a prediction, of 256 steps 0.84.
- `blocks`: the functions that chains in blocks call, on the processor. Without the pass `tiling`,
  no program asks for them.
- `phases`: transposed convolution without strides, where these divide the kernel's sizes: 0.25 ms
  for 0.9 (16 images of 32 × 32 × 3).
- `products`: convolution as a product of matrices, where a large kernel slides over few places:
  2.1 ms for 26 (3 × 3 over 2 × 2 and 512 channels).
- `threefry`: portable random words by one kernel, on an accelerator.
- `updates`: steps of optimizers by the kernels of `torch.optim`, in place. Without the pass
  `optimizer_steps`, no program asks for them.
"""
