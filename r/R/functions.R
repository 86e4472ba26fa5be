# Written by scripts/make_r.py from Backplane's Python signatures: do not edit.

k_RandomGenerator <- function(
    seed = NULL, rng_type = NULL, force_generator = FALSE
) {
  call_k("RandomGenerator", list(
      seed = seed, rng_type = rng_type, force_generator = force_generator
  ))
}

k_abs <- function(x) {
  call_k("abs", list(x = x))
}

k_all <- function(x, axis = NULL, keepdims = FALSE) {
  call_k("all", list(x = x, axis = axis, keepdims = keepdims))
}

k_any <- function(x, axis = NULL, keepdims = FALSE) {
  call_k("any", list(x = x, axis = axis, keepdims = keepdims))
}

k_arange <- function(start, stop = NULL, step = 1L, dtype = "int32") {
  call_k("arange", list(
      start = start, stop = stop, step = step, dtype = dtype
  ))
}

k_argmax <- function(x, axis = -1L) {
  call_k("argmax", list(x = x, axis = axis))
}

k_argmin <- function(x, axis = -1L) {
  call_k("argmin", list(x = x, axis = axis))
}

k_argsort <- function(x, axis = -1L) {
  call_k("argsort", list(x = x, axis = axis))
}

k_asymmetric_spatial_2d_padding <- function(
    x, top_pad = 1L, bottom_pad = 1L, left_pad = 1L, right_pad = 1L,
    dim_ordering = "default"
) {
  call_k("asymmetric_spatial_2d_padding", list(
      x = x, top_pad = top_pad, bottom_pad = bottom_pad, left_pad = left_pad,
      right_pad = right_pad, dim_ordering = dim_ordering
  ))
}

k_asymmetric_temporal_padding <- function(x, left_pad = 1L, right_pad = 1L) {
  call_k("asymmetric_temporal_padding", list(
      x = x, left_pad = left_pad, right_pad = right_pad
  ))
}

k_atan2 <- function(y, x) {
  call_k("atan2", list(y = y, x = x))
}

k_backend <- function() {
  call_k("backend", list())
}

k_batch_dot <- function(x, y, axes = NULL) {
  call_k("batch_dot", list(x = x, y = y, axes = axes))
}

k_batch_flatten <- function(x) {
  call_k("batch_flatten", list(x = x))
}

k_batch_get_value <- function(ops) {
  call_k("batch_get_value", list(ops = ops))
}

k_batch_normalization <- function(
    x, mean, var, beta, gamma, axis = -1L, epsilon = 0.001
) {
  call_k("batch_normalization", list(
      x = x, mean = mean, var = var, beta = beta, gamma = gamma, axis = axis,
      epsilon = epsilon
  ))
}

k_batch_set_value <- function(tuples) {
  call_k("batch_set_value", list(tuples = tuples))
}

k_bias_add <- function(x, bias, data_format = NULL) {
  call_k("bias_add", list(x = x, bias = bias, data_format = data_format))
}

k_binary_crossentropy <- function(target, output, from_logits = FALSE) {
  call_k("binary_crossentropy", list(
      target = target, output = output, from_logits = from_logits
  ))
}

k_binary_focal_crossentropy <- function(
    target, output, apply_class_balancing = FALSE, alpha = 0.25, gamma = 2,
    from_logits = FALSE
) {
  call_k("binary_focal_crossentropy", list(
      target = target, output = output,
      apply_class_balancing = apply_class_balancing, alpha = alpha,
      gamma = gamma, from_logits = from_logits
  ))
}

k_cast <- function(x, dtype) {
  call_k("cast", list(x = x, dtype = dtype))
}

k_cast_to_floatx <- function(x) {
  call_k("cast_to_floatx", list(x = x))
}

k_categorical_crossentropy <- function(
    target, output, from_logits = FALSE, axis = -1L
) {
  call_k("categorical_crossentropy", list(
      target = target, output = output, from_logits = from_logits,
      axis = axis
  ))
}

k_categorical_focal_crossentropy <- function(
    target, output, alpha = 0.25, gamma = 2, from_logits = FALSE, axis = -1L
) {
  call_k("categorical_focal_crossentropy", list(
      target = target, output = output, alpha = alpha, gamma = gamma,
      from_logits = from_logits, axis = axis
  ))
}

k_check_numerics <- function(x, message = "") {
  call_k("check_numerics", list(x = x, message = message))
}

k_clear_session <- function() {
  call_k("clear_session", list())
}

k_clip <- function(x, min_value, max_value) {
  call_k("clip", list(x = x, min_value = min_value, max_value = max_value))
}

k_concatenate <- function(tensors, axis = -1L) {
  call_k("concatenate", list(tensors = tensors, axis = axis))
}

k_constant <- function(value, dtype = NULL, shape = NULL, name = NULL) {
  call_k("constant", list(
      value = value, dtype = dtype, shape = shape, name = name
  ))
}

k_control_dependencies <- function(control_inputs) {
  call_k("control_dependencies", list(control_inputs = control_inputs))
}

k_conv1d <- function(
    x, kernel, strides = 1L, padding = "valid", data_format = NULL,
    dilation_rate = 1L
) {
  call_k("conv1d", list(
      x = x, kernel = kernel, strides = strides, padding = padding,
      data_format = data_format, dilation_rate = dilation_rate
  ))
}

k_conv2d <- function(
    x, kernel, strides = c(1L, 1L), padding = "valid", data_format = NULL,
    dilation_rate = c(1L, 1L)
) {
  call_k("conv2d", list(
      x = x, kernel = kernel, strides = strides, padding = padding,
      data_format = data_format, dilation_rate = dilation_rate
  ))
}

k_conv2d_transpose <- function(
    x, kernel, output_shape, strides = c(1L, 1L), padding = "valid",
    data_format = NULL, dilation_rate = c(1L, 1L)
) {
  call_k("conv2d_transpose", list(
      x = x, kernel = kernel, output_shape = output_shape, strides = strides,
      padding = padding, data_format = data_format,
      dilation_rate = dilation_rate
  ))
}

k_conv3d <- function(
    x, kernel, strides = c(1L, 1L, 1L), padding = "valid",
    data_format = NULL, dilation_rate = c(1L, 1L, 1L)
) {
  call_k("conv3d", list(
      x = x, kernel = kernel, strides = strides, padding = padding,
      data_format = data_format, dilation_rate = dilation_rate
  ))
}

k_conv3d_transpose <- function(
    x, kernel, output_shape, strides = c(1L, 1L, 1L), padding = "valid",
    data_format = NULL
) {
  call_k("conv3d_transpose", list(
      x = x, kernel = kernel, output_shape = output_shape, strides = strides,
      padding = padding, data_format = data_format
  ))
}

k_cos <- function(x) {
  call_k("cos", list(x = x))
}

k_count_params <- function(x) {
  call_k("count_params", list(x = x))
}

k_ctc_batch_cost <- function(y_true, y_pred, input_length, label_length) {
  call_k("ctc_batch_cost", list(
      y_true = y_true, y_pred = y_pred, input_length = input_length,
      label_length = label_length
  ))
}

k_ctc_decode <- function(
    y_pred, input_length, greedy = TRUE, beam_width = 100L, top_paths = 1L,
    merge_repeated = FALSE, pad_to_steps = FALSE
) {
  call_k("ctc_decode", list(
      y_pred = y_pred, input_length = input_length, greedy = greedy,
      beam_width = beam_width, top_paths = top_paths,
      merge_repeated = merge_repeated, pad_to_steps = pad_to_steps
  ))
}

k_ctc_label_dense_to_sparse <- function(labels, label_lengths) {
  call_k("ctc_label_dense_to_sparse", list(
      labels = labels, label_lengths = label_lengths
  ))
}

k_cumprod <- function(x, axis = 1L) {
  call_k("cumprod", list(x = x, axis = axis))
}

k_cumsum <- function(x, axis = 1L) {
  call_k("cumsum", list(x = x, axis = axis))
}

k_debug <- function(stop = TRUE, inf = TRUE) {
  call_k("debug", list(stop = stop, inf = inf))
}

k_deconv2d <- function(
    x, kernel, output_shape, strides = c(1L, 1L), border_mode = "valid",
    dim_ordering = "default", image_shape = NULL, filter_shape = NULL
) {
  call_k("deconv2d", list(
      x = x, kernel = kernel, output_shape = output_shape, strides = strides,
      border_mode = border_mode, dim_ordering = dim_ordering,
      image_shape = image_shape, filter_shape = filter_shape
  ))
}

k_depthwise_conv2d <- function(
    x, depthwise_kernel, strides = c(1L, 1L), padding = "valid",
    data_format = NULL, dilation_rate = c(1L, 1L)
) {
  call_k("depthwise_conv2d", list(
      x = x, depthwise_kernel = depthwise_kernel, strides = strides,
      padding = padding, data_format = data_format,
      dilation_rate = dilation_rate
  ))
}

k_device <- function(name) {
  call_k("device", list(name = name))
}

k_disable_tf_random_generator <- function() {
  call_k("disable_tf_random_generator", list())
}

k_dot <- function(x, y) {
  call_k("dot", list(x = x, y = y))
}

k_dropout <- function(x, level, noise_shape = NULL, seed = NULL) {
  call_k("dropout", list(
      x = x, level = level, noise_shape = noise_shape, seed = seed
  ))
}

k_dtype <- function(x) {
  call_k("dtype", list(x = x))
}

k_eager <- function(func) {
  call_k("eager", list(func = func))
}

k_einsum <- function(subscripts, operands) {
  call_k("einsum", list(subscripts = subscripts, operands = operands))
}

k_elu <- function(x, alpha = 1) {
  call_k("elu", list(x = x, alpha = alpha))
}

k_enable_tf_random_generator <- function() {
  call_k("enable_tf_random_generator", list())
}

k_engine <- function(name) {
  call_k("engine", list(name = name))
}

k_epsilon <- function() {
  call_k("epsilon", list())
}

k_equal <- function(x, y) {
  call_k("equal", list(x = x, y = y))
}

k_erf <- function(x) {
  call_k("erf", list(x = x))
}

k_erfinv <- function(x) {
  call_k("erfinv", list(x = x))
}

k_eval <- function(x) {
  call_k("eval", list(x = x))
}

k_exp <- function(x) {
  call_k("exp", list(x = x))
}

k_expand_dims <- function(x, axis = -1L) {
  call_k("expand_dims", list(x = x, axis = axis))
}

k_eye <- function(size, dtype = NULL, name = NULL) {
  call_k("eye", list(size = size, dtype = dtype, name = name))
}

k_flatten <- function(x) {
  call_k("flatten", list(x = x))
}

k_floatx <- function() {
  call_k("floatx", list())
}

k_foldl <- function(fn, elems, initializer = NULL, name = NULL) {
  call_k("foldl", list(
      fn = fn, elems = elems, initializer = initializer, name = name
  ))
}

k_foldr <- function(fn, elems, initializer = NULL, name = NULL) {
  call_k("foldr", list(
      fn = fn, elems = elems, initializer = initializer, name = name
  ))
}

k_function <- function(
    inputs, outputs, updates = NULL, name = NULL, precision = NULL,
    loss_scale = NULL, accumulate = 1L, ...
) {
  call_k("function", list(
      inputs = inputs, outputs = outputs, updates = updates, name = name,
      precision = precision, loss_scale = loss_scale,
      accumulate = accumulate, ...
  ))
}

k_gather <- function(reference, indices) {
  call_k("gather", list(reference = reference, indices = indices))
}

k_get_graph <- function() {
  call_k("get_graph", list())
}

k_get_mesh <- function() {
  call_k("get_mesh", list())
}

k_get_session <- function(op_input_list = c()) {
  call_k("get_session", list(op_input_list = op_input_list))
}

k_get_uid <- function(prefix = "") {
  call_k("get_uid", list(prefix = prefix))
}

k_get_value <- function(x) {
  call_k("get_value", list(x = x))
}

k_get_variable_shape <- function(x) {
  call_k("get_variable_shape", list(x = x))
}

k_gradients <- function(loss, variables) {
  call_k("gradients", list(loss = loss, variables = variables))
}

k_greater <- function(x, y) {
  call_k("greater", list(x = x, y = y))
}

k_greater_equal <- function(x, y) {
  call_k("greater_equal", list(x = x, y = y))
}

k_hard_sigmoid <- function(x) {
  call_k("hard_sigmoid", list(x = x))
}

k_identity <- function(x, name = NULL) {
  call_k("identity", list(x = x, name = name))
}

k_image_data_format <- function() {
  call_k("image_data_format", list())
}

k_image_dim_ordering <- function() {
  call_k("image_dim_ordering", list())
}

k_in_test_phase <- function(x, alt, training = NULL) {
  call_k("in_test_phase", list(x = x, alt = alt, training = training))
}

k_in_top_k <- function(predictions, targets, k) {
  call_k("in_top_k", list(
      predictions = predictions, targets = targets, k = k
  ))
}

k_in_train_phase <- function(x, alt, training = NULL) {
  call_k("in_train_phase", list(x = x, alt = alt, training = training))
}

k_int_shape <- function(x) {
  call_k("int_shape", list(x = x))
}

k_is_keras_tensor <- function(x) {
  call_k("is_keras_tensor", list(x = x))
}

k_is_placeholder <- function(x) {
  call_k("is_placeholder", list(x = x))
}

k_is_sparse <- function(tensor) {
  call_k("is_sparse", list(tensor = tensor))
}

k_is_tensor <- function(x) {
  call_k("is_tensor", list(x = x))
}

k_is_tf_random_generator_enabled <- function() {
  call_k("is_tf_random_generator_enabled", list())
}

k_is_variable <- function(x) {
  call_k("is_variable", list(x = x))
}

k_l2_normalize <- function(x, axis = NULL) {
  call_k("l2_normalize", list(x = x, axis = axis))
}

k_learning_phase <- function() {
  call_k("learning_phase", list())
}

k_learning_phase_scope <- function(value) {
  call_k("learning_phase_scope", list(value = value))
}

k_less <- function(x, y) {
  call_k("less", list(x = x, y = y))
}

k_less_equal <- function(x, y) {
  call_k("less_equal", list(x = x, y = y))
}

k_list_devices <- function() {
  call_k("list_devices", list())
}

k_load_state <- function(path, variables = NULL, random_state = TRUE) {
  call_k("load_state", list(
      path = path, variables = variables, random_state = random_state
  ))
}

k_local_conv <- function(
    inputs, kernel, kernel_size, strides, output_shape, data_format = NULL
) {
  call_k("local_conv", list(
      inputs = inputs, kernel = kernel, kernel_size = kernel_size,
      strides = strides, output_shape = output_shape,
      data_format = data_format
  ))
}

k_local_conv1d <- function(
    inputs, kernel, kernel_size, strides, data_format = NULL
) {
  call_k("local_conv1d", list(
      inputs = inputs, kernel = kernel, kernel_size = kernel_size,
      strides = strides, data_format = data_format
  ))
}

k_local_conv2d <- function(
    inputs, kernel, kernel_size, strides, output_shape, data_format = NULL
) {
  call_k("local_conv2d", list(
      inputs = inputs, kernel = kernel, kernel_size = kernel_size,
      strides = strides, output_shape = output_shape,
      data_format = data_format
  ))
}

k_log <- function(x) {
  call_k("log", list(x = x))
}

k_logsumexp <- function(x, axis = NULL, keepdims = FALSE) {
  call_k("logsumexp", list(x = x, axis = axis, keepdims = keepdims))
}

k_manual_variable_initialization <- function(value) {
  call_k("manual_variable_initialization", list(value = value))
}

k_map_fn <- function(fn, elems, name = NULL, dtype = NULL) {
  call_k("map_fn", list(fn = fn, elems = elems, name = name, dtype = dtype))
}

k_matmul <- function(x, y) {
  call_k("matmul", list(x = x, y = y))
}

k_max <- function(x, axis = NULL, keepdims = FALSE) {
  call_k("max", list(x = x, axis = axis, keepdims = keepdims))
}

k_maximum <- function(x, y) {
  call_k("maximum", list(x = x, y = y))
}

k_mean <- function(x, axis = NULL, keepdims = FALSE) {
  call_k("mean", list(x = x, axis = axis, keepdims = keepdims))
}

k_min <- function(x, axis = NULL, keepdims = FALSE) {
  call_k("min", list(x = x, axis = axis, keepdims = keepdims))
}

k_minimum <- function(x, y) {
  call_k("minimum", list(x = x, y = y))
}

k_mixed_precision <- function(dtype, loss_scale = NULL) {
  call_k("mixed_precision", list(dtype = dtype, loss_scale = loss_scale))
}

k_moving_average_update <- function(x, value, momentum) {
  call_k("moving_average_update", list(
      x = x, value = value, momentum = momentum
  ))
}

k_name_scope <- function(name, default_name = NULL, values = NULL) {
  call_k("name_scope", list(
      name = name, default_name = default_name, values = values
  ))
}

k_native <- function(
    fn, tensors, gradient = NULL, stateful = NULL, spec = NULL
) {
  call_k("native", list(
      fn = fn, tensors = tensors, gradient = gradient, stateful = stateful,
      spec = spec
  ))
}

k_ndim <- function(x) {
  call_k("ndim", list(x = x))
}

k_normalize_batch_in_training <- function(
    x, gamma, beta, reduction_axes, epsilon = 0.001
) {
  call_k("normalize_batch_in_training", list(
      x = x, gamma = gamma, beta = beta, reduction_axes = reduction_axes,
      epsilon = epsilon
  ))
}

k_normalize_data_format <- function(value) {
  call_k("normalize_data_format", list(value = value))
}

k_not_equal <- function(x, y) {
  call_k("not_equal", list(x = x, y = y))
}

k_one_hot <- function(indices, num_classes) {
  call_k("one_hot", list(indices = indices, num_classes = num_classes))
}

k_ones <- function(shape, dtype = NULL, name = NULL) {
  call_k("ones", list(shape = shape, dtype = dtype, name = name))
}

k_ones_like <- function(x, dtype = NULL, name = NULL) {
  call_k("ones_like", list(x = x, dtype = dtype, name = name))
}

k_pattern_broadcast <- function(x, broadcastable) {
  call_k("pattern_broadcast", list(x = x, broadcastable = broadcastable))
}

k_permute_dimensions <- function(x, pattern) {
  call_k("permute_dimensions", list(x = x, pattern = pattern))
}

k_placeholder <- function(
    shape = NULL, ndim = NULL, dtype = NULL, sparse = FALSE, name = NULL,
    ragged = FALSE
) {
  call_k("placeholder", list(
      shape = shape, ndim = ndim, dtype = dtype, sparse = sparse,
      name = name, ragged = ragged
  ))
}

k_plot_graph <- function(x, to_file = NULL, max_nodes = 60L, name = NULL) {
  call_k("plot_graph", list(
      x = x, to_file = to_file, max_nodes = max_nodes, name = name
  ))
}

k_pool2d <- function(
    x, pool_size, strides = c(1L, 1L), padding = "valid", data_format = NULL,
    pool_mode = "max"
) {
  call_k("pool2d", list(
      x = x, pool_size = pool_size, strides = strides, padding = padding,
      data_format = data_format, pool_mode = pool_mode
  ))
}

k_pool3d <- function(
    x, pool_size, strides = c(1L, 1L, 1L), padding = "valid",
    data_format = NULL, pool_mode = "max"
) {
  call_k("pool3d", list(
      x = x, pool_size = pool_size, strides = strides, padding = padding,
      data_format = data_format, pool_mode = pool_mode
  ))
}

k_pow <- function(x, a) {
  call_k("pow", list(x = x, a = a))
}

k_print_tensor <- function(
    x, message = "", summarize = NULL, format = NULL, summary = FALSE
) {
  call_k("print_tensor", list(
      x = x, message = message, summarize = summarize, format = format,
      summary = summary
  ))
}

k_prod <- function(x, axis = NULL, keepdims = FALSE) {
  call_k("prod", list(x = x, axis = axis, keepdims = keepdims))
}

k_py_all <- function(iterable) {
  call_k("py_all", list(iterable = iterable))
}

k_py_sum <- function(iterable, start = 0L) {
  call_k("py_sum", list(iterable = iterable, start = start))
}

k_random_bernoulli <- function(shape, p = 0, dtype = NULL, seed = NULL) {
  call_k("random_bernoulli", list(
      shape = shape, p = p, dtype = dtype, seed = seed
  ))
}

k_random_binomial <- function(shape, p = 0, dtype = NULL, seed = NULL) {
  call_k("random_binomial", list(
      shape = shape, p = p, dtype = dtype, seed = seed
  ))
}

k_random_normal <- function(
    shape, mean = 0, stddev = 1, dtype = NULL, seed = NULL
) {
  call_k("random_normal", list(
      shape = shape, mean = mean, stddev = stddev, dtype = dtype, seed = seed
  ))
}

k_random_normal_variable <- function(
    shape, mean, scale, dtype = NULL, name = NULL, seed = NULL
) {
  call_k("random_normal_variable", list(
      shape = shape, mean = mean, scale = scale, dtype = dtype, name = name,
      seed = seed
  ))
}

k_random_state <- function() {
  call_k("random_state", list())
}

k_random_uniform <- function(
    shape, minval = 0, maxval = 1, dtype = NULL, seed = NULL
) {
  call_k("random_uniform", list(
      shape = shape, minval = minval, maxval = maxval, dtype = dtype,
      seed = seed
  ))
}

k_random_uniform_variable <- function(
    shape, low, high, dtype = NULL, name = NULL, seed = NULL
) {
  call_k("random_uniform_variable", list(
      shape = shape, low = low, high = high, dtype = dtype, name = name,
      seed = seed
  ))
}

k_relu <- function(x, alpha = 0, max_value = NULL, threshold = 0) {
  call_k("relu", list(
      x = x, alpha = alpha, max_value = max_value, threshold = threshold
  ))
}

k_remat <- function(fn) {
  call_k("remat", list(fn = fn))
}

k_repeat <- function(x, n) {
  call_k("repeat", list(x = x, n = n))
}

k_repeat_elements <- function(x, rep, axis) {
  call_k("repeat_elements", list(x = x, rep = rep, axis = axis))
}

k_reset_uids <- function() {
  call_k("reset_uids", list())
}

k_reshape <- function(x, shape) {
  call_k("reshape", list(x = x, shape = shape))
}

k_resize_images <- function(
    x, height_factor, width_factor, data_format, interpolation = "nearest"
) {
  call_k("resize_images", list(
      x = x, height_factor = height_factor, width_factor = width_factor,
      data_format = data_format, interpolation = interpolation
  ))
}

k_resize_volumes <- function(
    x, depth_factor, height_factor, width_factor, data_format
) {
  call_k("resize_volumes", list(
      x = x, depth_factor = depth_factor, height_factor = height_factor,
      width_factor = width_factor, data_format = data_format
  ))
}

k_reverse <- function(x, axes) {
  call_k("reverse", list(x = x, axes = axes))
}

k_rnn <- function(
    step_function, inputs, initial_states, go_backwards = FALSE, mask = NULL,
    constants = NULL, unroll = FALSE, input_length = NULL,
    time_major = FALSE, zero_output_for_mask = FALSE,
    return_all_outputs = TRUE
) {
  call_k("rnn", list(
      step_function = step_function, inputs = inputs,
      initial_states = initial_states, go_backwards = go_backwards,
      mask = mask, constants = constants, unroll = unroll,
      input_length = input_length, time_major = time_major,
      zero_output_for_mask = zero_output_for_mask,
      return_all_outputs = return_all_outputs
  ))
}

k_round <- function(x) {
  call_k("round", list(x = x))
}

k_save_state <- function(path, variables) {
  call_k("save_state", list(path = path, variables = variables))
}

k_segment_max <- function(data, segment_ids, num_segments) {
  call_k("segment_max", list(
      data = data, segment_ids = segment_ids, num_segments = num_segments
  ))
}

k_segment_sum <- function(data, segment_ids, num_segments) {
  call_k("segment_sum", list(
      data = data, segment_ids = segment_ids, num_segments = num_segments
  ))
}

k_separable_conv1d <- function(
    x, depthwise_kernel, pointwise_kernel, strides = 1L, padding = "valid",
    data_format = NULL, dilation_rate = 1L
) {
  call_k("separable_conv1d", list(
      x = x, depthwise_kernel = depthwise_kernel,
      pointwise_kernel = pointwise_kernel, strides = strides,
      padding = padding, data_format = data_format,
      dilation_rate = dilation_rate
  ))
}

k_separable_conv2d <- function(
    x, depthwise_kernel, pointwise_kernel, strides = c(1L, 1L),
    padding = "valid", data_format = NULL, dilation_rate = c(1L, 1L)
) {
  call_k("separable_conv2d", list(
      x = x, depthwise_kernel = depthwise_kernel,
      pointwise_kernel = pointwise_kernel, strides = strides,
      padding = padding, data_format = data_format,
      dilation_rate = dilation_rate
  ))
}

k_set_epsilon <- function(e) {
  call_k("set_epsilon", list(e = e))
}

k_set_floatx <- function(floatx) {
  call_k("set_floatx", list(floatx = floatx))
}

k_set_image_data_format <- function(data_format) {
  call_k("set_image_data_format", list(data_format = data_format))
}

k_set_image_dim_ordering <- function(dim_ordering) {
  call_k("set_image_dim_ordering", list(dim_ordering = dim_ordering))
}

k_set_learning_phase <- function(value) {
  call_k("set_learning_phase", list(value = value))
}

k_set_mesh <- function(axes) {
  call_k("set_mesh", list(axes = axes))
}

k_set_random_seed <- function(seed, portable = FALSE) {
  call_k("set_random_seed", list(seed = seed, portable = portable))
}

k_set_random_state <- function(state) {
  call_k("set_random_state", list(state = state))
}

k_set_session <- function(session) {
  call_k("set_session", list(session = session))
}

k_set_value <- function(x, value) {
  call_k("set_value", list(x = x, value = value))
}

k_shape <- function(x) {
  call_k("shape", list(x = x))
}

k_shard <- function(x, layout) {
  call_k("shard", list(x = x, layout = layout))
}

k_sigmoid <- function(x) {
  call_k("sigmoid", list(x = x))
}

k_sign <- function(x) {
  call_k("sign", list(x = x))
}

k_sin <- function(x) {
  call_k("sin", list(x = x))
}

k_size <- function(x, name = NULL) {
  call_k("size", list(x = x, name = name))
}

k_slice <- function(x, start, size) {
  call_k("slice", list(x = x, start = start, size = size))
}

k_softmax <- function(x, axis = -1L) {
  call_k("softmax", list(x = x, axis = axis))
}

k_softplus <- function(x) {
  call_k("softplus", list(x = x))
}

k_softsign <- function(x) {
  call_k("softsign", list(x = x))
}

k_sort <- function(x, axis = -1L) {
  call_k("sort", list(x = x, axis = axis))
}

k_sparse_categorical_crossentropy <- function(
    target, output, from_logits = FALSE, axis = -1L, ignore_class = NULL
) {
  call_k("sparse_categorical_crossentropy", list(
      target = target, output = output, from_logits = from_logits,
      axis = axis, ignore_class = ignore_class
  ))
}

k_spatial_2d_padding <- function(
    x, padding = list(c(1L, 1L), c(1L, 1L)), data_format = NULL
) {
  call_k("spatial_2d_padding", list(
      x = x, padding = padding, data_format = data_format
  ))
}

k_spatial_3d_padding <- function(
    x, padding = list(c(1L, 1L), c(1L, 1L), c(1L, 1L)), data_format = NULL
) {
  call_k("spatial_3d_padding", list(
      x = x, padding = padding, data_format = data_format
  ))
}

k_sqrt <- function(x) {
  call_k("sqrt", list(x = x))
}

k_square <- function(x) {
  call_k("square", list(x = x))
}

k_squeeze <- function(x, axis) {
  call_k("squeeze", list(x = x, axis = axis))
}

k_stack <- function(x, axis = 1L) {
  call_k("stack", list(x = x, axis = axis))
}

k_std <- function(x, axis = NULL, keepdims = FALSE) {
  call_k("std", list(x = x, axis = axis, keepdims = keepdims))
}

k_stop_gradient <- function(variables) {
  call_k("stop_gradient", list(variables = variables))
}

k_sum <- function(x, axis = NULL, keepdims = FALSE) {
  call_k("sum", list(x = x, axis = axis, keepdims = keepdims))
}

k_switch <- function(condition, then_expression, else_expression) {
  call_k("switch", list(
      condition = condition, then_expression = then_expression,
      else_expression = else_expression
  ))
}

k_symbolic <- function(func) {
  call_k("symbolic", list(func = func))
}

k_symbolic_learning_phase <- function() {
  call_k("symbolic_learning_phase", list())
}

k_tanh <- function(x) {
  call_k("tanh", list(x = x))
}

k_temporal_padding <- function(x, padding = c(1L, 1L)) {
  call_k("temporal_padding", list(x = x, padding = padding))
}

k_tile <- function(x, n) {
  call_k("tile", list(x = x, n = n))
}

k_to_dense <- function(tensor) {
  call_k("to_dense", list(tensor = tensor))
}

k_top_k <- function(x, k) {
  call_k("top_k", list(x = x, k = k))
}

k_transpose <- function(x) {
  call_k("transpose", list(x = x))
}

k_truncated_normal <- function(
    shape, mean = 0, stddev = 1, dtype = NULL, seed = NULL
) {
  call_k("truncated_normal", list(
      shape = shape, mean = mean, stddev = stddev, dtype = dtype, seed = seed
  ))
}

k_update <- function(x, new_x) {
  call_k("update", list(x = x, new_x = new_x))
}

k_update_add <- function(x, increment) {
  call_k("update_add", list(x = x, increment = increment))
}

k_update_sub <- function(x, decrement) {
  call_k("update_sub", list(x = x, decrement = decrement))
}

k_var <- function(x, axis = NULL, keepdims = FALSE) {
  call_k("var", list(x = x, axis = axis, keepdims = keepdims))
}

k_variable <- function(value, dtype = NULL, name = NULL, constraint = NULL) {
  call_k("variable", list(
      value = value, dtype = dtype, name = name, constraint = constraint
  ))
}

k_where <- function(condition, x, y) {
  call_k("where", list(condition = condition, x = x, y = y))
}

k_zeros <- function(shape, dtype = NULL, name = NULL) {
  call_k("zeros", list(shape = shape, dtype = dtype, name = name))
}

k_zeros_like <- function(x, dtype = NULL, name = NULL) {
  call_k("zeros_like", list(x = x, dtype = dtype, name = name))
}
