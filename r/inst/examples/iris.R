# A classifier of R's own iris data, written in K alone: two layers, softmax,
# gradient descent with momentum. Run it with
#
#   Rscript -e 'source(system.file("examples", "iris.R", package = "backplane"))'

library(backplane)
K <- backend()

set.seed(1)
features <- scale(as.matrix(iris[, 1:4]))
classes <- as.integer(iris$Species) - 1L # they count from 0
training <- sample(nrow(iris), 100)

x <- k_placeholder(shape = list(NULL, 4))
y <- k_placeholder(shape = list(NULL), dtype = "int32")

glorot <- function(rows, columns) {
  limit <- sqrt(6 / (rows + columns))
  k_variable(matrix(runif(rows * columns, -limit, limit), rows))
}
w1 <- glorot(4, 16)
b1 <- k_zeros(16)
w2 <- glorot(16, 3)
b2 <- k_zeros(3)
weights <- list(w1, b1, w2, b2)

hidden <- k_tanh(k_dot(x, w1) + b1)
probabilities <- k_softmax(k_dot(hidden, w2) + b2)
loss <- mean(k_sparse_categorical_crossentropy(y, probabilities))
hit <- k_equal(k_cast(k_argmax(probabilities), "int32"), y)
accuracy <- k_mean(k_cast(hit, "float32"))

# Each step moves a velocity towards the gradient, and the weight by it.
updates <- list()
gradients <- k_gradients(loss, weights)
for (i in seq_along(weights)) {
  velocity <- k_zeros(k_int_shape(weights[[i]]))
  moved <- 0.9 * velocity - 0.1 * gradients[[i]]
  updates <- c(updates, k_update(velocity, moved))
  updates <- c(updates, k_update_add(weights[[i]], moved))
}

train <- k_function(list(x, y), list(loss), updates = updates)
test <- k_function(list(x, y), list(loss = loss, accuracy = accuracy))

losses <- numeric()
for (epoch in 1:60) {
  for (batch in split(sample(training), rep(1:5, each = 20))) {
    train(list(features[batch, ], classes[batch]))
  }
  losses[epoch] <- test(list(features[training, ], classes[training]))$loss
  if (epoch %% 10 == 0) {
    cat(sprintf("epoch %2d  loss %.4f\n", epoch, losses[epoch]))
  }
}

held <- test(list(features[-training, ], classes[-training]))
cat(sprintf("held out: loss %.4f  accuracy %.2f\n", held$loss, held$accuracy))
